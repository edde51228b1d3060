// A gateway, a scripted provider and a browser, as the tests need them.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { chromium } from 'playwright-core';

export const program = process.env.BACKSTOP_BINARY;
const faultd = join(dirname(program), 'faultd');

const freePort = () => new Promise(resolve => {
  const server = createServer().listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

const started = (path, args, env, ready) => new Promise((resolve, reject) => {
  const child = spawn(path, args, { env: { ...env, PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  child.stderr.on('data', chunk => { text += chunk; const found = ready.exec(text); if (found) resolve(child); });
  child.on('exit', code => reject(new Error(`${path} ended with ${code}: ${text}`)));
});
const ended = child => new Promise(resolve => {
  child.removeAllListeners('exit');
  if (child.exitCode !== null || child.signalCode !== null) { resolve(); return; }
  child.on('exit', resolve);
  child.kill();
});

/** What a busy machine may take for one step. */
const PATIENCE = 45_000;

/** One browser for all tests. */
let browser;
const launched = () => { browser ??= chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] }); return browser; };
export const closeBrowser = async () => { if (browser) await (await browser).close(); };

/** Starts everything. The script is faultd's; `UPSTREAM` in the configuration is where that listens. */
export const world = async (script = '', configuration = '') => {
  const folder = mkdtempSync(join(tmpdir(), 'backstop-browser-'));
  const data = join(folder, 'data');
  const config = join(folder, 'backstop.toml');
  writeFileSync(join(folder, 'script.toml'), script);
  const [upstreamPort, port] = [await freePort(), await freePort()];
  const upstream = `http://127.0.0.1:${upstreamPort}/v1`;
  const url = `http://127.0.0.1:${port}`;
  writeFileSync(config, configuration.replaceAll('UPSTREAM', upstream));
  const serve = () => started(program, ['serve', '--config', config, '--listen', `127.0.0.1:${port}`, '--data-dir', data, '--log', 'warn'], { HOME: folder, HOOK_SECRET: 'whsec_c2VjcmV0LW9mLXRoZS10ZXN0cw==' }, /backstop listens on http/);
  const provider = await started(faultd, ['--script', join(folder, 'script.toml'), '--listen', `127.0.0.1:${upstreamPort}`], {}, /listens on (\S+)/);
  let gateway = await serve();
  const token = readFileSync(join(data, 'admin.token'), 'utf8').trim();
  const api = async (method, path, body) => {
    const answer = await fetch(url + path, { method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  const complaints = [];
  /** A page of a person of their own, signed in. Whatever the browser complains about is a failure of the test. */
  const person = async (options = {}) => {
    const context = await (await launched()).newContext({ viewport: { width: 1360, height: 900 }, timezoneId: 'Europe/Berlin', reducedMotion: 'reduce', ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.on('pageerror', error => complaints.push(`${page.url()}: ${error.message}`));
    page.on('console', message => {
      if (message.type() === 'error' && !/status of [45]\d\d|ERR_/.test(message.text())) complaints.push(`${page.url()}: ${message.text()}`);
    });
    page.on('dialog', dialog => { complaints.push(`a script of the provider ran: ${dialog.message()}`); dialog.dismiss(); });
    await page.goto(`${url}/sign-in`);
    await page.fill('#secret', token);
    await page.click('button[type=submit]');
    await page.waitForURL(address => address.pathname !== '/sign-in');
    return page;
  };
  /** What a program asks of the gateway. Returns status and text. */
  const ask = async (client, model, { path = '/v1/chat/completions', stream = false } = {}) => {
    const answer = await fetch(url + path, { method: 'POST', headers: { authorization: `Bearer ${client}`, 'content-type': 'application/json' }, body: JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'hello' }] }) });
    return { status: answer.status, text: await answer.text() };
  };
  /** Does something with the data folder while no gateway uses it. */
  const restart = async between => {
    await ended(gateway);
    await between?.(data);
    gateway = await serve();
  };
  /** Runs the program to its end beside the gateway. */
  const run = args => spawnSync(program, args, { env: { PATH: process.env.PATH, HOME: folder }, encoding: 'utf8', timeout: 60000 });
  const close = async () => {
    await Promise.all([ended(gateway), ended(provider)]);
    rmSync(folder, { recursive: true, force: true });
  };
  return { url, upstream, token, api, ask, person, complaints, restart, run, close, folder, data };
};

/** Waits until a condition holds; the page changes by itself. */
export const until = async (page, condition, argument) => page.waitForFunction(condition, argument, { timeout: PATIENCE });

/** Waits until something outside the page holds. */
export const eventually = async (what, holds) => {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not come true in time`);
    await new Promise(resolve => { setTimeout(resolve, 50); });
  }
};
