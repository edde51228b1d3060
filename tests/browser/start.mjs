// From an empty data folder to the first answered request.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until, world } from './world.mjs';

export const start = () => {
  let it;
  let page;
  before(async () => {
    it = await world('models = ["small"]');
    page = await it.person();
  });
  after(async () => { await it.close(); });

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
    await page.waitForSelector('#provider-done');
    await page.click('#test-here [data-call]');
    await page.click('#client-here [data-start-client]');
    await until(page, () => !document.querySelector('#s-curl [data-token]').textContent.includes('CLIENT_KEY'));
    await page.click('[data-snippet="curl"]');
    const snippet = await page.innerText('#s-curl');
    assert.ok(snippet.includes(`${it.url}/v1/chat/completions`) && snippet.includes('house/small'), snippet);
    const client = await page.locator('#s-curl [data-token]').textContent();
    assert.equal((await it.ask(client, 'house/small')).status, 200);
    await page.waitForSelector('#arrived.done');
    assert.match(await page.innerText('#arrived'), /Answered/);
    await page.click('a:has-text("Go to the overview")');
    await page.waitForSelector('h1:has-text("Overview")');
  });

  test('the browser had nothing to complain about', () => {
    assert.deepEqual(it.complaints, []);
  });
};
