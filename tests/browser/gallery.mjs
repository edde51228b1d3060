// Every page of a gateway that is in full use: accessible, fitting, and as a picture where one is asked for.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import { eventually, world } from './world.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const here = dirname(fileURLToPath(import.meta.url));
const shots = process.env.BROWSER_SHOTS;
const HOUR = 3600_000;
const written = at => new Date(at).toISOString().slice(0, 19).replace('T', ' ');
const json = value => JSON.stringify(value).replaceAll('\\', '\\\\').replaceAll("'", '’');

/** Keys of the scripted provider by what becomes of them. */
const script = now => {
  const failing = (key, status, body, more = '') => `
[[rule]]
when  = { key = "${key}" }
reply = { status = ${status}, json = '${json(body)}'${more} }
`;
  const windows = (key, five, week) => `
[[rule]]
when  = { key = "${key}", path = "/api/monitor/usage/quota/limit" }
reply = { json = '${json({ code: 200, msg: 'ok', success: true, data: { level: 'pro', limits: [
    { type: 'TOKENS_LIMIT', unit: 3, number: 5, usage: 800000, currentValue: 8000 * five, remaining: 8000 * (100 - five), percentage: five, nextResetTime: now + 1.7 * HOUR },
    { type: 'TOKENS_LIMIT', unit: 6, number: 1, usage: 9000000, currentValue: 90000 * week, remaining: 90000 * (100 - week), percentage: week, nextResetTime: now + 76 * HOUR },
  ] } })}' }
`;
  return `
models = ["large", "small"]
otherwise = { wait_ms = 12 }

[[rule]]
when  = { path = "/v1/key" }
reply = { json = '{"data":{"limit":50,"limit_remaining":18.4,"limit_reset":"monthly"}}' }
${windows('sk-zai-good-1', 42, 31)}${windows('sk-zai-good-2', 78, 55)}${windows('sk-zai-full-1', 100, 62)}
${failing('sk-zai-full-1', 429, { error: { code: '1308', message: `Usage limit reached for 5 hour. Your limit will reset at ${written(now + 1.7 * HOUR + 8 * HOUR)}` } })}
${failing('sk-zai-refused', 401, { error: { code: '1002', message: 'Authorization Token is invalid, please confirm that it is passed correctly.' } })}
${failing('sk-or-empty', 402, { error: { code: 402, message: 'Insufficient credits. Add more using https://openrouter.ai/settings/credits' } })}
${failing('sk-or-fast', 429, { error: { code: 429, message: 'Rate limit exceeded: free-models-per-min. ' } }, ', headers = { "retry-after" = "1500" }')}
${failing('sk-groq-odd', 409, { error: { type: 'seat_migration', message: 'Your seat is being migrated to another region' } })}
${failing('sk-groq-ill', 500, { error: { message: 'Internal server error', type: 'internal_server_error' } })}
`;
};
const providers = [
  ['zai', 'zai-coding', ['large', 'small'], ['team-a first sk-zai-full-1', 'old-laptop sk-zai-refused', 'team-a sk-zai-good-1', 'team-b sk-zai-good-2', 'night-shift sk-zai-good-3', 'spare sk-zai-good-4']],
  ['openrouter', 'openrouter', ['large', 'small:free'], ['prepaid sk-or-empty', 'free-tier sk-or-fast', 'main sk-or-good']],
  ['groq', 'groq', ['large'], ['odd sk-groq-odd', 'ill sk-groq-ill', 'free sk-groq-good']],
];

export const gallery = () => {
  let it;
  let page;
  const paths = {};
  before(async () => {
    it = await world(script(Date.now()), `
[[alert]]
channel      = "command"
name         = "phone"
command      = ["true"]
min_severity = "critical"

[[alert]]
channel    = "webhook"
name       = "ops-room"
url        = "http://127.0.0.1:9/hook"
secret_env = "HOOK_SECRET"
`);
    for (const [id, preset, models, keys] of providers) {
      await it.api('POST', '/api/providers', { id, preset, base_url: it.upstream, allow_private: true });
      await it.api('PUT', `/api/providers/${id}/models`, { models });
      await it.api('POST', `/api/providers/${id}/keys/bulk`, { text: keys.map(key => key.replace(/ (?=first)/, '-')).join('\n') });
    }
    await it.api('PUT', '/api/providers/zai/fallbacks', { legs: [{ provider: 'openrouter', model: 'large' }, { provider: 'groq', model: null }] });
    await it.api('POST', '/api/combos', { id: 'fast', members: [{ provider: 'groq', model: 'large', alias: 'best' }, { provider: 'zai', model: 'small', alias: 'best' }] });
    // Without Python the charts are empty, which is a page too.
    await it.restart(data => { spawnSync('python3', [join(here, 'backfill.py'), data], { stdio: 'inherit' }); });
    const clients = [];
    for (const [name, limits] of [['claude-code', {}], ['nightly batch', { requests_per_minute: 600, spend_micros: 20_000_000 }], ['notebook', { providers: ['zai'], tokens_per_minute: 90_000 }]]) {
      clients.push((await it.api('POST', '/api/clients', { name, limits })).key);
    }
    for (let turn = 0; turn < 30; turn += 1) {
      const model = ['zai/large', 'zai/small', 'openrouter/large', 'groq/large', 'zai/large'][turn % 5];
      await it.ask(clients[turn % 3], model, { stream: turn % 2 === 0 });
    }
    await it.ask(clients[0], 'groq/none');
    const keys = Object.fromEntries(await Promise.all(providers.map(async ([id]) => [id, (await it.api('GET', `/api/providers/${id}/keys`)).items])));
    const of = (id, label) => keys[id].find(key => key.label === label).id;
    for (const label of ['team-a', 'team-b', 'team-a-first']) await it.api('POST', `/api/providers/zai/keys/${of('zai', label)}/quota/probe`);
    for (const label of ['team-a', 'old-laptop', 'team-a-first']) await it.api('POST', `/api/providers/zai/keys/${of('zai', label)}/test`);
    await it.api('POST', `/api/providers/zai/keys/bulk-action`, { ids: [of('zai', 'night-shift')], action: 'pause', for_s: 14400 });
    for (const [name, words] of [['writer', 'API Error: 429 rate_limit_error: Number of requests has exceeded your limit'], ['reviewer', 'Claude usage limit reached. Your limit will reset at 11pm (UTC).'], ['tester', '']]) {
      it.run(['run', '--name', name, '--account', name, '--once', '--data-dir', it.data, '--', 'sh', '-c', words ? `echo "${words}" >&2; exit 1` : 'exit 0']);
    }
    const shape = await eventually('the unknown failure', async () => (await it.api('GET', '/api/unknown'))[0]?.shape);
    const logs = await eventually('the log', async () => { const { items } = await it.api('GET', '/api/logs?limit=100'); return items.length >= 25 && items; });
    const [first] = await it.api('GET', `/api/providers/zai/keys/${of('zai', 'team-a-first')}/errors`);
    const longest = logs.reduce((one, other) => (other.attempts.length > one.attempts.length ? other : one));
    await eventually('the alerts', async () => (await it.api('GET', '/api/notifications')).length > 2);
    Object.assign(paths, {
      overview: '/', providers: '/providers', provider: '/providers/zai', keys: '/providers/zai/keys', models: '/providers/openrouter/models', chain: '/providers/zai/fallback', quota: '/providers/zai/quota', 'provider-settings': '/providers/zai/settings',
      combos: '/combos', fallback: '/fallback', requests: '/requests', request: `/requests/${longest.id}`, unknown: `/unknown/${shape}`, explain: `/explain?provider=zai&key=${of('zai', 'team-a-first')}&at=${Date.parse(first.at)}`,
      alerts: '/alerts', agents: '/agents', clients: '/clients', settings: '/settings', start: '/start', missing: '/nothing',
    });
    page = await it.person({ viewport: { width: 1280, height: 860 } });
  });
  after(async () => { await it?.close(); });

  const looks = async (name, wrong) => {
    for (const [scheme, width] of [['light', 1280], ['dark', 1280], ['light', 360], ['light', 640]]) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 860 });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (over > 0) wrong.push(`${name} at ${width} px scrolls sideways by ${over}`);
      if (width !== 640) {
        const violations = await page.evaluate(async () => (await window.axe.run()).violations.map(found => `${found.id}: ${found.nodes[0].html.slice(0, 160)}`));
        wrong.push(...violations.map(found => `${name} ${scheme} ${width}: ${found}`));
      }
      if (shots && (width === 1280 || process.env.BROWSER_SHOTS_NARROW && width === 360)) shoot(`${name}-${scheme}${width === 360 ? '-narrow' : ''}`, await page.screenshot({ fullPage: width === 360 }));
    }
    await page.setViewportSize({ width: 1280, height: 860 });
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  };
  /** Keeps a picture, with few colours where there is a program for it. */
  const shoot = (name, picture) => {
    mkdirSync(shots, { recursive: true });
    const file = join(shots, `${name}.png`);
    try {
      execFileSync('pngquant', ['128', '--speed', '3', '--output', file, '--force', '-'], { input: picture, stdio: ['pipe', 'ignore', 'ignore'] });
    } catch {
      writeFileSync(file, picture);
    }
  };

  test('every page is accessible, in light and dark, and fits a narrow screen and a large zoom', async () => {
    const wrong = [];
    for (const [name, path] of Object.entries(paths)) {
      await page.goto(it.url + path);
      if (name === 'unknown') await page.waitForFunction(() => !document.querySelector('[data-effect]').textContent.includes('not tried'));
      await page.evaluate(axe);
      await looks(name, wrong);
    }
    assert.deepEqual(wrong, []);
  });

  test('so are the dialogs and the door', async () => {
    const wrong = [];
    const opened = async (name, path, open) => {
      await page.goto(it.url + path);
      await open();
      await page.evaluate(axe);
      await looks(name, wrong);
    };
    await opened('error-history', '/providers/zai/keys', async () => { await page.click('tr[data-name="team-a-first"] .errs'); await page.waitForSelector('#history[open]'); });
    await opened('add-keys', '/providers/zai/keys', async () => { await page.click('[data-open="add-keys"]'); await page.fill('#paste', 'team-c sk-zai-new-1\nold sk-zai-refused'); await page.click('#add-keys [data-add]'); await page.waitForSelector('#paste-results tbody tr:nth-child(2)'); });
    await opened('shortcuts', '/', async () => { await page.keyboard.press('?'); });
    const signed = page;
    page = await signed.context().browser().newPage({ viewport: { width: 1280, height: 860 } });
    await opened('sign-in', '/sign-in', async () => {});
    await page.close();
    page = signed;
    assert.deepEqual(wrong, []);
  });

  test('the browser had nothing to complain about', () => {
    assert.deepEqual(it.complaints, []);
  });
};
