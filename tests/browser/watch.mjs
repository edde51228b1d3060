// Watch: alerts and who is told, agents, usage windows, numbers.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { eventually, until, world } from './world.mjs';

export const watch = () => {
  let it;
  let page;
  let client;
  let hook;
  const told = [];
  before(async () => {
    hook = createServer((request, answer) => {
      let text = '';
      request.on('data', chunk => { text += chunk; });
      request.on('end', () => { told.push(text); answer.end('thanks'); });
    });
    await new Promise(resolve => { hook.listen(0, '127.0.0.1', resolve); });
    it = await world(`
models = ["small"]

[[rule]]
when  = { key = "sk-refused-0123456789" }
reply = { status = 401, json = '{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}' }

[[rule]]
when  = { path = "/v1/key" }
reply = { json = '{"data":{"limit":10,"limit_remaining":4,"limit_reset":"daily"}}' }
`, `
[[alert]]
channel    = "webhook"
name       = "on-call"
url        = "http://127.0.0.1:${hook.address().port}/hook"
secret_env = "HOOK_SECRET"
`);
    await it.api('POST', '/api/providers', { id: 'house', preset: 'openrouter', base_url: it.upstream, allow_private: true });
    await it.api('PUT', '/api/providers/house/models', { models: ['small'] });
    await it.api('POST', '/api/providers/house/keys', { key: 'sk-good-0123456789', label: 'good' });
    client = (await it.api('POST', '/api/clients', { name: 'test' })).key;
    page = await it.person();
  });
  after(async () => { hook.close(); await it.close(); });

  test('an alert comes on by itself, is told, rings the bell and is marked as seen', async () => {
    await page.goto(`${it.url}/alerts`);
    await page.waitForSelector('text=All is well');
    await it.api('POST', '/api/providers/house/keys', { key: 'sk-refused-0123456789', label: 'refused' });
    const keys = (await it.api('GET', '/api/providers/house/keys')).items;
    const refused = keys.find(key => key.label === 'refused').id;
    await it.api('POST', '/api/providers/house/keys/reorder', { ids: [refused] });
    for (let turn = 0; turn < 3; turn += 1) assert.equal((await it.ask(client, 'house/small')).status, 200);
    await it.api('POST', `/api/providers/house/keys/${refused}/test`);
    await page.waitForSelector('li[id="alert-key_disabled/house"]');
    const alert = page.locator('li[id="alert-key_disabled/house"]');
    assert.match(await alert.innerText(), /house: key disabled/);
    await page.waitForSelector('tr[id^="notice-"]');
    await page.waitForSelector('.side-head .bell .count');
    await eventually('the webhook', () => told.some(text => text.includes('key_disabled')));
    await alert.locator('button').click();
    await until(page, () => document.querySelector('li[id="alert-key_disabled/house"]').textContent.includes('Seen'));
    assert.equal((await it.api('GET', '/api/alerts'))[0].acknowledged, true);
    await page.click('[data-call="POST /api/notifications/read"]');
    await until(page, () => !document.querySelector('.side-head .bell .count'));
    await alert.locator('a').click();
    await page.waitForURL('**/providers/house/keys');
  });

  test('a channel shows how it fares, and takes a test message', async () => {
    await page.goto(`${it.url}/alerts`);
    const row = page.locator('tr[id="channel-on-call"]');
    assert.match(await row.innerText(), /Works/);
    const before = told.length;
    await row.locator('button').click();
    await until(page, () => document.querySelector('#toast span').textContent.startsWith('It was taken'));
    assert.ok(told.length > before);
  });

  test('a supervised process shows its state, its next start and its history', async () => {
    await page.goto(`${it.url}/agents`);
    await page.waitForSelector('text=No agents here');
    it.run(['run', '--name', 'writer', '--once', '--data-dir', it.data, '--', 'sh', '-c', 'echo "API Error: 429 rate_limit_error: Number of requests has exceeded your limit" >&2; exit 1']);
    await page.reload();
    await page.waitForSelector('#seat-writer');
    assert.match(await page.innerText('#seat-writer'), /Stopped, broken[\s\S]*rate_limit[\s\S]*in \d\d:\d\d/);
    assert.match(await page.innerText('[aria-label="History of writer"]'), /rate_limit/);
  });

  test('usage windows are probed on demand, with age and source', async () => {
    await page.goto(`${it.url}/providers/house/quota`);
    await page.click('[id^="unread-"]:has-text("good") button');
    await page.waitForSelector('svg.gauge[role=img]');
    const row = await page.innerText('.quota tbody');
    assert.match(row, /Daily window[\s\S]*60 %[\s\S]*6 of 10 usd[\s\S]*usage endpoint/);
    await page.click('.quota tbody button');
    await until(page, () => document.querySelector('#toast span').textContent.includes('read anew'));
  });

  test('the overview counts attempts, first tokens and what was saved', async () => {
    await it.ask(client, 'house/small', { stream: true });
    await page.goto(`${it.url}/`);
    await until(page, () => document.querySelector('.stats').textContent.includes('Saved by a retry'));
    const numbers = await page.$$eval('.stats > div', items => Object.fromEntries(items.map(item => [item.children[0].textContent, item.children[1].textContent])));
    assert.ok(Number(numbers['Attempts each']) > 1, JSON.stringify(numbers));
    assert.match(numbers['First token'], /\d+ ms|\d s/);
    assert.equal(numbers['Saved by a retry'], '1');
  });

  test('the browser had nothing to complain about', () => {
    assert.deepEqual(it.complaints, []);
  });
};
