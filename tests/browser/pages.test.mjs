// Every page: first start, sign-in, forms, accessibility, narrow screens, weight.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { until, world } from './world.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = process.env.BROWSER_SHOTS;

let it;
let page;
before(async () => {
  it = await world(`
models = ["small"]

[[rule]]
when  = { key = "sk-odd-0123456789" }
reply = { status = 409, json = '{"error":{"type":"seat_migration","message":"Your seat is being migrated"}}' }
`);
  page = await it.person();
});
after(async () => { await it.close(); });

let client;
const ask = () => fetch(`${it.url}/v1/chat/completions`, { method: 'POST', headers: { authorization: `Bearer ${client}`, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'house/small', messages: [{ role: 'user', content: 'hello' }] }) }).then(answer => answer.text());

test('from a fresh data folder to the first answered request', async () => {
  assert.equal(new URL(page.url()).pathname, '/start');
  await page.selectOption('#pf-preset', '');
  await page.fill('#pf-id', 'house');
  await page.fill('#pf-base', it.upstream);
  await page.check('[name=allow_private]');
  await page.fill('#pf-models', 'small');
  await page.fill('#pf-key', 'sk-good-0123456789');
  await page.click('[data-try]');
  await until(page, () => document.querySelector('[data-provider-form] [role=status]').textContent.includes('works'));
  await page.click('[data-provider-form] [type=submit]');
  await page.click('button:has-text("Test the key")');
  await page.click('[data-start-client]');
  await until(page, () => !document.querySelector('#s-curl [data-token]').textContent.includes('CLIENT_KEY'));
  client = await page.locator('#s-curl [data-token]').textContent();
  await ask();
  await page.waitForSelector('#arrived.done');
  assert.match(await page.innerText('#arrived'), /Answered/);
});

test('a failure that no rule knows becomes a rule', async () => {
  await it.api('POST', '/api/providers/house/keys', { key: 'sk-odd-0123456789', label: 'odd' });
  const keys = (await it.api('GET', '/api/providers/house/keys')).items;
  await it.api('POST', '/api/providers/house/keys/reorder', { ids: [keys[1].id] });
  await ask();
  await page.goto(`${it.url}/unknown`);
  await page.waitForSelector('[data-rule]');
  await page.fill('#rre', 'seat_migration');
  await until(page, () => /overloaded/.test(document.querySelector('[data-effect]').textContent));
  await page.click('[data-rule] [type=submit]');
  await page.waitForSelector('text=The inbox is empty');
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
  await page.fill('#new-model', 'second');
  await page.click('#new-model + button');
  await page.waitForSelector('#models li:nth-child(2)');
  await page.click('#models li:nth-child(2) [data-list=up]');
  await until(page, () => document.querySelector('#models li .mono').textContent === 'second');
  await page.goto(`${it.url}/providers/house/fallback`);
  await page.click('[data-add-to="#legs"] [type=submit]');
  await page.waitForSelector('#legs li');
  await page.goto(`${it.url}/combos`);
  await page.click('[data-combo=""]');
  await page.fill('#combo-id', 'mix');
  await page.fill('#combo-members', 'house/small as best\nannex/small as best');
  await page.click('#combo [type=submit]');
  await page.waitForSelector('text="/proxy/mix"');
  await page.goto(`${it.url}/clients`);
  await page.click('.head [data-client=""]');
  await page.fill('#c-name', 'laptop');
  await page.fill('#c-rpm', '60');
  await page.click('#client [type=submit]');
  await page.waitForSelector('#made[open]');
  assert.ok((await page.innerText('#made-key')).length > 20);
  await page.click('#made [data-close]');
  await page.waitForSelector('text=60 requests a minute');
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

test('every page is accessible, in light and dark, and fits a narrow screen', async () => {
  const keys = (await it.api('GET', '/api/logs')).items;
  const paths = {
    overview: '/', providers: '/providers', provider: '/providers/house', keys: '/providers/house/keys', models: '/providers/house/models', chain: '/providers/house/fallback', quota: '/providers/house/quota', 'provider-settings': '/providers/house/settings',
    combos: '/combos', fallback: '/fallback', requests: '/requests', request: `/requests/${keys[0].id}`, unknown: '/unknown', explain: '/explain?provider=generic&status=429&body=Rate%20limit%20reached', alerts: '/alerts', clients: '/clients', settings: '/settings', start: '/start', missing: '/nothing',
  };
  if (shots) mkdirSync(shots, { recursive: true });
  const wrong = [];
  for (const [name, path] of Object.entries(paths)) {
    for (const [scheme, width] of [['light', 1360], ['dark', 1360], ['light', 360], ['light', 680]]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      await page.goto(it.url + path);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (over > 0) wrong.push(`${name} at ${width} px scrolls sideways by ${over}`);
      await page.evaluate(axe);
      const violations = await page.evaluate(async () => (await window.axe.run()).violations.map(found => `${found.id}: ${found.nodes[0].html.slice(0, 120)}`));
      wrong.push(...violations.map(found => `${name} ${scheme} ${width}: ${found}`));
      if (shots && width !== 680) await page.screenshot({ path: `${shots}/${name}-${scheme}-${width}.png` });
    }
  }
  await page.setViewportSize({ width: 1360, height: 900 });
  assert.deepEqual(wrong, []);
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
