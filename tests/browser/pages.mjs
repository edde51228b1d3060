// Set up and diagnose: rules, settings, models, chains, combos, clients, requests; keyboard, weight, sessions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually, until, world } from './world.mjs';

export const pages = () => {
  let it;
  let page;
  let client;
  before(async () => {
    it = await world(`
models = ["small"]

[[rule]]
when  = { path = "/v1/models" }
reply = { json = '{"data":[{"id":"small","pricing":{"prompt":"0","completion":"0"}},{"id":"dear","pricing":{"prompt":"0.1","completion":"0.2"}}]}' }

[[rule]]
when  = { key = "sk-odd-0123456789" }
reply = { status = 409, json = '{"error":{"type":"seat_migration","message":"Your seat is being migrated"}}' }
`);
    await it.api('POST', '/api/providers', { id: 'house', format: 'openai-chat', base_url: it.upstream, allow_private: true });
    await it.api('PUT', '/api/providers/house/models', { models: ['small'] });
    await it.api('POST', '/api/providers/house/keys', { key: 'sk-good-0123456789', label: 'good' });
    client = (await it.api('POST', '/api/clients', { name: 'test' })).key;
    page = await it.person();
  });
  after(async () => { await it.close(); });
  const ask = () => it.ask(client, 'house/small');

  test('a failure that no rule knows appears by itself and becomes a rule', async () => {
    await it.api('POST', '/api/providers/house/keys', { key: 'sk-odd-0123456789', label: 'odd' });
    const keys = (await it.api('GET', '/api/providers/house/keys')).items;
    const odd = keys.find(key => key.label === 'odd').id;
    await it.api('POST', '/api/providers/house/keys/reorder', { ids: [odd] });
    await page.goto(`${it.url}/unknown`);
    await page.waitForSelector('text=The inbox is empty');
    assert.equal((await ask()).status, 200);
    await page.waitForSelector('[data-rule]');
    assert.match(await page.innerText('#main'), /Your seat is being migrated/);
    await page.fill('#rre', 'seat_migration');
    await until(page, () => /1 of 1 shapes/.test(document.querySelector('[data-effect]').textContent));
    const effect = await page.innerText('[data-effect]');
    assert.match(effect, /overloaded/);
    assert.match(effect, /1 of 1 failures/);
    assert.match(effect, /unknown → overloaded/);
    await page.click('[data-write="toml"]');
    assert.match(await page.inputValue('[name=toml]'), /reason = "seat_migration"/);
    await page.click('[data-write="form"]');
    await page.click('[data-rule] [type=submit]');
    await page.waitForSelector('text=The inbox is empty');
    assert.equal((await it.api('GET', '/api/user-rules')).length, 1);
  });

  test('any failure is explained: an answer, a broken connection, a process', async () => {
    await page.goto(`${it.url}/explain`);
    await page.fill('#xs', '529');
    await page.fill('#xb', '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}');
    await page.click('[data-explain] [type=submit]');
    await page.waitForSelector('.hero');
    assert.equal(await page.innerText('.hero .badge.cls'), 'overloaded');
    await page.click('[data-kind="transport"]');
    await page.selectOption('#xf', 'read_timeout');
    await page.fill('#xb', '');
    await page.click('[data-explain] [type=submit]');
    await until(page, () => document.querySelector('.hero .badge.cls')?.textContent === 'timeout');
    await page.click('[data-kind="process"]');
    await page.fill('#xe', '1');
    await page.fill('#xr', 'API Error: 401 invalid x-api-key');
    await page.click('[data-explain] [type=submit]');
    await until(page, () => document.querySelector('.hero .badge.cls')?.textContent === 'auth_error');
  });

  test('requests appear by themselves, unless the list is held', async () => {
    await page.goto(`${it.url}/requests`);
    const rows = () => page.locator('tbody tr').count();
    const before = await rows();
    await ask();
    await until(page, before => document.querySelectorAll('tbody tr').length > before, before);
    await page.click('[data-hold]');
    const held = await rows();
    await ask();
    await eventually('the request in the log', async () => (await it.api('GET', '/api/logs?limit=10')).items.length > held);
    assert.equal(await rows(), held);
    await page.click('[data-hold]');
    await until(page, held => document.querySelectorAll('tbody tr').length > held, held);
    await page.selectOption('[name=outcome]', 'failed');
    await page.waitForSelector('text=No request matches');
    assert.equal(new URL(page.url()).searchParams.get('outcome'), 'failed');
    await page.reload();
    await page.waitForSelector('text=No request matches');
  });

  test('settings are saved when it is said what changes', async () => {
    await page.goto(`${it.url}/settings`);
    await page.fill('[name=max_attempts]', '24');
    await until(page, () => document.querySelector('.savebar').textContent.includes('max_attempts 32 → 24'));
    await page.click('.savebar [type=submit]');
    await page.waitForSelector('#max_attempts.changed');
    await page.click('#max_attempts [data-default]');
    await until(page, () => !document.querySelector('#max_attempts').classList.contains('changed'));
  });

  test('models, chains, combos and clients are edited', async () => {
    await it.api('POST', '/api/providers', { id: 'annex', format: 'openai-chat', base_url: it.upstream, allow_private: true });
    await page.goto(`${it.url}/providers/house/models`);
    await page.click('[data-list="fetch"]');
    await page.waitForSelector('#offer[open]');
    await page.check('#offer input[value="dear"]');
    await page.click('[data-list="take"]');
    await page.waitForSelector('#models li:nth-child(2)');
    assert.match(await page.innerText('#models li:nth-child(1)'), /small\s+Free/);
    assert.match(await page.innerText('#models li:nth-child(2)'), /dear\s+Paid/);
    await page.click('#models li:nth-child(2) [data-list=up]');
    await until(page, () => document.querySelector('#models li .mono').textContent === 'dear');
    await page.click('#models li:nth-child(1) [data-list=remove]');
    await until(page, () => document.querySelectorAll('#models li').length === 1);
    await page.click('#toast button');
    await page.waitForSelector('#models li:nth-child(2)');
    await page.goto(`${it.url}/providers/house/fallback`);
    await page.click('[data-add-to="#legs"] [type=submit]');
    await page.waitForSelector('#legs li');
    await page.goto(`${it.url}/combos`);
    await page.click('[data-combo=""]');
    await page.fill('#combo-id', 'mix');
    await page.fill('#combo-members', 'house/small as best\nannex/small as best');
    await page.click('#combo [type=submit]');
    await page.waitForSelector('text="/proxy/mix"');
    assert.equal((await it.ask(client, 'best', { path: '/proxy/mix/v1/chat/completions' })).status, 200);
    await page.click('[data-combo="mix"]');
    await page.fill('#combo-members', 'house/small as quick');
    await page.click('#combo [type=submit]');
    await page.waitForSelector('text=as quick');
    await page.click('[data-call="DELETE /api/combos/mix"]');
    await page.click('#ask [data-do]');
    await page.waitForSelector('text=No combos here');
    await page.goto(`${it.url}/clients`);
    await page.click('.head [data-client=""]');
    await page.fill('#c-name', 'laptop');
    await page.fill('#c-rpm', '60');
    await page.fill('#c-ends', '2099-12-31');
    await page.click('#client [type=submit]');
    await page.waitForSelector('#made[open]');
    assert.ok((await page.innerText('#made-key')).length > 20);
    await page.click('#made [data-close]');
    await page.waitForSelector('text=60 requests a minute');
    const row = page.locator('tr', { hasText: 'laptop' });
    assert.match(await row.innerText(), /2099/);
    await row.locator('[data-client]').click();
    await page.fill('#c-rpm', '90');
    await page.click('#client [type=submit]');
    await page.waitForSelector('text=90 requests a minute');
    await row.locator('[data-call^="DELETE"]').click();
    assert.match(await page.innerText('#ask h2'), /Revoke laptop/);
    await page.click('#ask [data-do]');
    await until(page, () => !document.querySelector('#main').textContent.includes('laptop'));
  });

  test('a provider is paused, taken back by undo, and removed by its name', async () => {
    await page.goto(`${it.url}/providers/annex/settings`);
    await page.click('[data-call^="PATCH"]:has-text("Pause")');
    await page.waitForSelector('h3:has-text("Paused")');
    await page.click('#toast button');
    await page.waitForSelector('h3:has-text("In use")');
    await page.click('[data-ask-name="annex"]');
    assert.ok(await page.locator('#ask [data-do]').isDisabled());
    await page.fill('#ask-name', 'annex');
    await page.click('#ask [data-do]');
    await page.waitForURL('**/providers');
    await until(page, () => !document.querySelector('#main').textContent.includes('annex'));
  });

  test('the theme is kept', async () => {
    await page.goto(`${it.url}/`);
    await page.click('.side [data-set-theme="dark"]');
    await page.reload();
    assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
    await page.click('.side [data-set-theme=""]');
    assert.equal(await page.getAttribute('html', 'data-theme'), null);
  });

  test('the keyboard reaches everything', async () => {
    await page.goto(`${it.url}/`);
    await page.keyboard.press('?');
    await page.waitForSelector('#shortcuts[open]');
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.waitForSelector('#find[open]');
    await page.keyboard.type('house: api');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/providers/house/keys');
    await page.keyboard.press('ArrowDown');
    assert.equal(await page.evaluate(() => Boolean(document.activeElement.closest('tr[data-key]'))), true);
    await page.keyboard.press('g');
    await page.keyboard.press('r');
    await page.waitForURL('**/requests');
  });

  test('a first load is below 60 KB and runs nothing inline', async () => {
    const fresh = await it.person();
    const client = await fresh.context().newCDPSession(fresh);
    await client.send('Network.enable');
    await client.send('Network.setCacheDisabled', { cacheDisabled: true });
    let bytes = 0;
    client.on('Network.loadingFinished', loaded => { bytes += loaded.encodedDataLength; });
    const answer = await fresh.goto(`${it.url}/providers/house/keys`);
    await fresh.waitForLoadState('load');
    assert.ok(bytes > 10000 && bytes < 60 * 1024, `${bytes} bytes`);
    assert.match(answer.headers()['content-security-policy'], /^default-src 'self';/);
    assert.doesNotMatch(answer.headers()['content-security-policy'], /unsafe/);
    assert.equal(await fresh.evaluate(() => document.querySelectorAll('[style], style, script:not([src])').length), 0);
    await fresh.context().close();
  });

  test('a session that ends leads to the door and back', async () => {
    const other = await it.person();
    await other.goto(`${it.url}/requests?outcome=failed`);
    await other.context().clearCookies({ name: 'backstop-session' });
    await other.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await other.waitForURL('**/sign-in?then=**');
    await other.fill('#secret', 'wrong password');
    await other.click('[type=submit]');
    await other.waitForSelector('#sign-in .notice:not([hidden])');
    await other.fill('#secret', it.token);
    await other.click('[type=submit]');
    await other.waitForURL('**/requests?outcome=failed');
    await other.context().close();
  });

  test('the stale banner shows when the gateway is gone', async () => {
    await page.goto(`${it.url}/`);
    await page.context().setOffline(true);
    await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
    await page.waitForSelector('#stale:not([hidden])');
    await page.context().setOffline(false);
    assert.deepEqual(it.complaints, []);
  });
};
