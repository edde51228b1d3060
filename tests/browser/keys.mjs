// The keys of a provider, worked on as a person would.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, until, world } from './world.mjs';

const script = `
models = ["small"]
otherwise = { wait_ms = 20 }

[[rule]]
when  = { key = "sk-refused-0123456789" }
reply = { status = 401, json = '{"error":{"message":"Incorrect API key provided <img src=x onerror=alert(1)><script>alert(2)</script>","type":"invalid_request_error","code":"invalid_api_key"}}' }

[[rule]]
when  = { key = "sk-limited-0123456789" }
reply = { status = 429, headers = { "retry-after" = "600" }, json = '{"error":{"message":"Too many requests"}}' }
`;

export const keys = () => {
  let it;
  let page;
  before(async () => {
    it = await world(script);
    await it.api('POST', '/api/providers', { id: 'house', format: 'openai-chat', base_url: it.upstream, rules: 'openai', allow_private: true });
    await it.api('PUT', '/api/providers/house/models', { models: ['small'] });
    page = await it.person();
  });
  after(async () => { await it.close(); });

  const names = () => page.$$eval('tr[data-key]', rows => rows.map(row => row.dataset.name));
  const badgeOf = name => page.locator(`tr[data-name="${name}"] .state .badge`).innerText();
  const item = async (name, action) => {
    await page.click(`tr[data-name="${name}"] [data-menu]`);
    await page.click(`#menu [data-item="${action}"]`);
  };

  test('keys are pasted, tested before they are saved, and only what works is added', async () => {
    await page.goto(`${it.url}/providers/house/keys`);
    await page.click('.empty [data-open="add-keys"]');
    await page.fill('#paste', 'one sk-good-1111111111\nbad sk-refused-0123456789\ntwo sk-good-2222222222\nthree, sk-good-3333333333\nlimited sk-limited-0123456789');
    await page.click('#add-keys [data-add]');
    await page.waitForSelector('#paste-results tbody tr:nth-child(5)');
    await until(page, () => document.querySelector('#add-keys [data-add]').textContent === 'Add 4 keys');
    assert.match(await page.innerText('#paste-results tbody tr:nth-child(2)'), /Refused, 401/);
    await page.click('#add-keys [data-add]');
    await page.waitForSelector('tr[data-name="three"]');
    assert.deepEqual(await names(), ['one', 'two', 'three', 'limited']);
    assert.equal(await badgeOf('one'), 'Untested');
  });

  test('keys are ordered by buttons, by the keyboard and by dragging', async () => {
    await page.click('tr[data-name="two"] [data-move="-1"]');
    await until(page, () => document.querySelector('tr[data-key]').dataset.name === 'two');
    await page.focus('tr[data-name="two"] [data-menu]');
    await page.keyboard.press('Alt+ArrowDown');
    await until(page, () => document.querySelector('tr[data-key]').dataset.name === 'one');
    const grip = await page.locator('tr[data-name="three"] .grip').boundingBox();
    const first = await page.locator('tr[data-name="one"]').boundingBox();
    await page.mouse.move(grip.x + 8, grip.y + 8);
    await page.mouse.down();
    await page.mouse.move(first.x + 300, first.y + 30, { steps: 5 });
    await page.mouse.move(first.x + 300, first.y + 5, { steps: 3 });
    await page.mouse.up();
    await until(page, () => document.querySelector('tr[data-key]').dataset.name === 'three');
    const saved = await it.api('GET', '/api/providers/house/keys');
    assert.deepEqual(saved.items.map(key => key.label), ['three', 'one', 'two', 'limited']);
  });

  test('a label is changed where it stands, and Esc leaves it', async () => {
    await page.click('tr[data-name="two"] [data-rename]');
    await page.keyboard.type('zwei');
    await page.keyboard.press('Escape');
    assert.ok((await names()).includes('two'));
    await page.click('tr[data-name="two"] [data-rename]');
    await page.fill('.rename-field', 'second');
    await page.keyboard.press('Enter');
    await page.waitForSelector('tr[data-name="second"]');
  });

  test('a key is paused for a time and the pause is taken back', async () => {
    await item('second', 'pause');
    await page.selectOption('#pause-for', '900');
    await page.click('#pause button[type=submit]');
    await until(page, () => document.querySelector('tr[data-name="second"]').dataset.state === 'paused');
    assert.match(await page.innerText('tr[data-name="second"] .why'), /By hand, until \d\d:\d\d, in 1[45]:\d\d/);
    await page.click('#toast button');
    await until(page, () => document.querySelector('tr[data-name="second"]').dataset.state !== 'paused');
  });

  test('the last usable key asks before it is taken out', async () => {
    for (const name of ['one', 'second', 'limited']) {
      await page.click(`tr[data-name="${name}"] [data-switch]`);
      await until(page, name => document.querySelector(`tr[data-name="${name}"]`).dataset.state === 'disabled', name);
    }
    await page.click('tr[data-name="three"] [data-switch]');
    await page.waitForSelector('#ask[open]');
    assert.match(await page.innerText('#ask h2'), /“three” is the last usable key/);
    await page.click('#ask [data-close]');
    await until(page, () => !document.querySelector('#ask').open);
    assert.notEqual(await page.getAttribute('tr[data-name="three"]', 'data-state'), 'disabled');
    await page.click('[data-all]');
    await page.click('[data-bulk="enable"]');
    await until(page, () => [...document.querySelectorAll('tr[data-key]')].every(row => row.dataset.state !== 'disabled'));
    await page.click('[data-all]');
  });

  test('traffic shows by itself, and the error history tells what the provider said', async () => {
    const client = await it.api('POST', '/api/clients', { name: 'test' });
    await it.api('POST', '/api/providers/house/keys/bulk', { text: 'zero sk-refused-0123456789' });
    const keys = (await it.api('GET', '/api/providers/house/keys')).items;
    const id = label => keys.find(key => key.label === label).id;
    await it.api('POST', '/api/providers/house/keys/reorder', { ids: [id('zero'), id('limited')] });
    await page.waitForSelector('tr[data-name="zero"]');
    const answer = await fetch(`${it.url}/proxy/house/v1/chat/completions`, { method: 'POST', headers: { authorization: `Bearer ${client.key}`, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hello' }] }) });
    assert.equal(answer.status, 200);
    await answer.text();
    await until(page, () => document.querySelector('tr[data-name="limited"]').dataset.state === 'resting');
    assert.match(await page.innerText('tr[data-name="limited"] .why'), /Back at \d\d:\d\d, in \d\d:\d\d\. Rate limit reached\. Source: answer header/);
    assert.match(await badgeOf('zero'), /Disabled: auth|Quarantined/);
    await page.waitForSelector('tr[data-name="zero"] .errs');
    await page.click('tr[data-name="zero"] .errs');
    await page.waitForSelector('#history[open] tbody tr');
    assert.match(await page.innerText('#history tbody tr'), /Incorrect API key provided <img src=x onerror=alert\(1\)>/);
    await page.click('#history tbody a[href^="/requests/"]');
    await page.waitForSelector('.fall .leg');
    assert.equal(await page.locator('.fall .leg:not(.axis):not(.wait)').count(), 3);
    assert.match(await page.innerText('#main .notice.ok'), /The client saw none of the 2 failures/);
    await page.click('.fall .leg:nth-child(3) a[href^="/explain"]');
    await page.waitForSelector('.hero .badge');
    assert.equal(await page.innerText('.hero .badge.cls'), 'rate_limit');
    assert.match(await page.inputValue('#xh'), /retry-after: 600/);
    assert.match(await page.inputValue('#xb'), /"Too many requests"/);
    await page.goBack();
    await page.click('.fall .leg:nth-child(2) a[href^="/explain"]');
    await page.waitForSelector('.hero .badge');
    assert.equal(await page.innerText('.hero .badge.cls'), 'auth_error');
    assert.match(await page.inputValue('#xb'), /<script>alert\(2\)<\/script>/);
  });

  test('every line of the error history can be explained from what arrived', async () => {
    await page.goto(`${it.url}/providers/house/keys`);
    await page.click('tr[data-name="limited"] .errs');
    await page.click('#history tbody a[href^="/explain"]');
    await page.waitForSelector('.hero .badge');
    assert.match(await page.inputValue('#xh'), /retry-after: 600/);
  });

  test('a rest is ended by hand', async () => {
    await page.goto(`${it.url}/providers/house/keys`);
    await item('limited', 'end_rest');
    await until(page, () => document.querySelector('tr[data-name="limited"]').dataset.state !== 'resting');
  });

  test('testing all keys tells how it goes and stops in the middle', async () => {
    await it.api('POST', '/api/providers/house/keys/bulk', { text: Array.from({ length: 60 }, (_, number) => `many-${number} sk-many-000000${number}`).join('\n') });
    await page.waitForSelector('tr[data-name="many-59"]');
    await page.click('#test-all');
    await until(page, () => Number(/^(\d+) of 65/.exec(document.querySelector('#testing [role=status]').textContent)?.[1]) >= 2);
    await page.click('#testing [data-stop]');
    await until(page, () => document.querySelector('#toast span').textContent.startsWith('Testing stopped'));
    const tested = (await it.api('GET', '/api/providers/house/keys')).items.filter(key => key.test).length;
    assert.ok(tested >= 2 && tested < 65, `${tested} tested`);
    assert.ok(await page.locator('#test-all').isEnabled());
  });

  test('two people work on the same keys and see each other', async () => {
    const other = await it.person();
    await other.goto(`${it.url}/providers/house/keys?q=one`);
    await other.click('tr[data-name="one"] [data-switch]');
    await until(page, () => document.querySelector('tr[data-name="one"]').dataset.state === 'disabled');
    await page.click('tr[data-name="one"] [data-switch]');
    await until(other, () => document.querySelector('tr[data-name="one"]').dataset.state !== 'disabled');
    await other.context().close();
  });

  test('many keys are deleted at once, with their number as confirmation', async () => {
    await page.goto(`${it.url}/providers/house/keys?q=many-`);
    await page.click('[data-all]');
    await page.click('[data-bulk="delete"]');
    assert.ok(await page.locator('#ask [data-do]').isDisabled());
    await page.fill('#ask-name', '60');
    await page.click('#ask [data-do]');
    await page.waitForSelector('text=No key matches');
    await eventually('the deletion', async () => (await it.api('GET', '/api/providers/house/keys')).total === 5);
  });

  test('two people rename the same key, and the second is told', async () => {
    await page.goto(`${it.url}/providers/house/keys`);
    const other = await it.person();
    await other.goto(`${it.url}/providers/house/keys`);
    await page.click('tr[data-name="one"] [data-rename]');
    await page.fill('.rename-field', 'mine');
    await other.click('tr[data-name="one"] [data-rename]');
    await other.fill('.rename-field', 'theirs');
    await other.keyboard.press('Enter');
    await other.waitForSelector('tr[data-name="theirs"]');
    await page.focus('.rename-field');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#refused:not([hidden])');
    assert.match(await page.innerText('#refused'), /changed/);
    await page.waitForSelector('tr[data-name="theirs"]');
    await other.context().close();
  });

  test('one key is deleted after it was asked', async () => {
    await page.goto(`${it.url}/providers/house/keys`);
    await item('zero', 'delete');
    await page.waitForSelector('#ask[open]');
    await page.click('#ask [data-do]');
    await until(page, () => !document.querySelector('tr[data-name="zero"]'));
  });

  test('five thousand keys are paged, and painted nearly as soon as none', async () => {
    await it.api('POST', '/api/providers', { id: 'empty', format: 'openai-chat', base_url: it.upstream, allow_private: true });
    await it.api('POST', '/api/providers/house/keys/bulk', { text: Array.from({ length: 5000 }, (_, number) => `bulk-${number} sk-bulk-0000${number}`).join('\n') });
    const total = (await it.api('GET', '/api/providers/house/keys?limit=1')).total;
    await page.goto(`${it.url}/providers/house/keys`);
    assert.equal(await page.locator('tr[data-key]').count(), 100);
    assert.match(await page.innerText('.panel > footer'), new RegExp(`${total.toLocaleString('en')} keys`));
    await page.click('text=Next page');
    await until(page, () => document.querySelector('tr[data-key] .pos')?.textContent === '101');
    const painted = async path => {
      const times = [];
      for (let turn = 0; turn < 5; turn += 1) {
        await page.goto(it.url + path);
        await until(page, () => performance.getEntriesByName('first-contentful-paint').length > 0);
        times.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
      }
      return times.sort((one, other) => one - other)[2];
    };
    const [none, many] = [await painted('/providers/empty/keys'), await painted('/providers/house/keys')];
    console.log(`first paint: ${Math.round(none)} ms without keys, ${Math.round(many)} ms with ${total}`);
    assert.ok(many < 4 * none, `${many} ms with ${total} keys, ${none} ms without`);
  });

  test('the browser had nothing to complain about', () => {
    assert.deepEqual(it.complaints, []);
  });
};
