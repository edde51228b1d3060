// A gateway, a scripted provider and a browser, as the tests need them.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const binaries = process.env.BACKSTOP_BINARIES;

const freePort = () => new Promise(resolve => {
  const server = createServer().listen(0, '127.0.0.1', () => { const { port } = server.address(); server.close(() => resolve(port)); });
});

const started = (program, args, env, ready) => new Promise((resolve, reject) => {
  const child = spawn(join(binaries, program), args, { env: { ...env, PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  child.stderr.on('data', chunk => { text += chunk; const found = ready.exec(text); if (found) resolve({ child, found, text: () => text }); });
  child.on('exit', code => reject(new Error(`${program} ended with ${code}: ${text}`)));
});

/** Starts everything. The script is faultd's; the configuration may be empty for a first start. */
export const world = async (script = '', configuration = '') => {
  const folder = mkdtempSync(join(tmpdir(), 'backstop-browser-'));
  writeFileSync(join(folder, 'script.toml'), script);
  const upstreamPort = await freePort();
  const faultd = await started('faultd', ['--script', join(folder, 'script.toml'), '--listen', `127.0.0.1:${upstreamPort}`], {}, /listens on (\S+)/);
  const upstream = `http://127.0.0.1:${upstreamPort}/v1`;
  const port = await freePort();
  const config = join(folder, 'backstop.toml');
  writeFileSync(config, configuration.replaceAll('UPSTREAM', upstream));
  const gateway = await started('backstop', ['serve', '--config', config, '--listen', `127.0.0.1:${port}`, '--data-dir', join(folder, 'data'), '--log', 'warn'], { HOME: folder }, /backstop listens on (http\S+)[\s\S]*admin token/);
  const token = readFileSync(join(folder, 'data', 'admin.token'), 'utf8').trim();
  const url = `http://127.0.0.1:${port}`;
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu'] });
  const api = async (method, path, body) => {
    const answer = await fetch(url + path, { method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  const complaints = [];
  /** A page of a person of their own, signed in. Whatever the browser complains about is a failure of the test. */
  const person = async (options = {}) => {
    const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, timezoneId: 'Europe/Berlin', ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(60000);
    page.on('pageerror', error => complaints.push(`${page.url()}: ${error.message}`));
    page.on('console', message => {
      if (message.type() === 'error' && !/status of 4\d\d|ERR_/.test(message.text())) complaints.push(`${page.url()}: ${message.text()}`);
    });
    page.on('dialog', dialog => { complaints.push(`a script of the provider ran: ${dialog.message()}`); dialog.dismiss(); });
    await page.goto(`${url}/sign-in`);
    await page.fill('#secret', token);
    await page.click('button[type=submit]');
    await page.waitForURL(address => address.pathname !== '/sign-in');
    return page;
  };
  const close = async () => { await browser.close(); gateway.child.removeAllListeners('exit'); faultd.child.removeAllListeners('exit'); gateway.child.kill(); faultd.child.kill(); };
  return { url, upstream, token, api, person, complaints, close, folder };
};

/** Waits until a condition holds; the page changes by itself. */
export const until = async (page, condition, argument) => page.waitForFunction(condition, argument, { timeout: 60000 });
