// The frame: theme and zone, dialogs, toasts, keyboard, finding.
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** Cookies that are no secrets: the server draws the page in the person's theme and time zone at once. */
const remember = (name, value) => {
  document.cookie = `backstop-${name}=${encodeURIComponent(value)}; path=/; max-age=31536000; samesite=strict`;
};
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const zoneWasKnown = document.cookie.includes(`backstop-zone=${encodeURIComponent(zone)}`);
if (zone && !zoneWasKnown) remember('zone', zone);

const setTheme = theme => {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  $$('[data-set-theme]').forEach(button => button.setAttribute('aria-pressed', button.dataset.setTheme === theme));
  remember('theme', theme);
};

/** Makes an element. Texts are always set as text. */
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children);
  return element;
};
const sprite = $('svg.i use')?.getAttribute('href')?.split('#')[0] ?? '';
const icon = name => {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('class', 'i');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  use.setAttribute('href', `${sprite}#${name}`);
  svg.append(use);
  return svg;
};
const badge = (tone, symbol, text) => make('span', { class: `badge ${tone}` }, icon(symbol), text);

let toastTimer;
/** Says what has happened; with an undo where there is one. */
const toast = (text, undo) => {
  const box = $('#toast');
  $('span', box).textContent = text;
  const button = $('button', box);
  button.hidden = !undo;
  button.onclick = () => { box.hidden = true; undo(); };
  box.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, undo ? 15000 : 5000);
};

/** Says what was refused, and why. */
const refuse = problem => {
  const box = $('#refused');
  if (!box) return;
  $('[data-title]', box).textContent = `${problem.title ?? 'That did not work'}.`;
  $('[data-detail]', box).textContent = problem.detail ?? '';
  box.hidden = false;
  box.scrollIntoView({ block: 'nearest' });
};

/** Asks before something that cannot be undone. Resolves to whether it shall be done. */
const ask = (title, text, verb, name) => new Promise(resolve => {
  const dialog = $('#ask');
  const typed = $('[data-type]', dialog);
  const input = $('input', typed);
  const go = $('[data-do]', dialog);
  $('h2', dialog).textContent = title;
  $('[data-text]', dialog).textContent = text;
  go.textContent = verb;
  typed.hidden = !name;
  input.value = '';
  $('label', typed).textContent = name ? `Type ${name} to go on` : '';
  const check = () => { go.disabled = Boolean(name) && input.value !== name; };
  check();
  input.oninput = check;
  let answer = false;
  go.onclick = () => { answer = true; dialog.close(); };
  dialog.onclose = () => resolve(answer);
  dialog.showModal();
  (name ? input : $('[data-close]', dialog)).focus();
});

/** Shows a dialog and resolves to the value of the button that closed it. */
const choose = dialog => new Promise(resolve => {
  dialog.returnValue = '';
  dialog.onclose = () => resolve(dialog.returnValue);
  dialog.showModal();
});

const copy = async text => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard; a selection is.
    const field = make('textarea', { readonly: true });
    field.value = text;
    ($('dialog[open]') ?? document.body).append(field);
    field.select();
    document.execCommand('copy');
    field.remove();
  }
  toast('Copied');
};

document.addEventListener('click', async event => {
  const button = event.target.closest('[data-set-theme], [data-open], [data-close], [data-hide], [data-find], [data-reload], [data-copy], [data-copy-path], [data-copy-url], [data-copy-from], [data-load]');
  if (!button) return;
  const { dataset } = button;
  if ('setTheme' in dataset) setTheme(dataset.setTheme);
  if ('close' in dataset) button.closest('dialog').close();
  if ('hide' in dataset) button.closest('.notice').hidden = true;
  if ('find' in dataset) find();
  if ('reload' in dataset) leave();
  if (dataset.open) $(`#${dataset.open}`)?.showModal();
  if (dataset.copy) copy(dataset.copy);
  if (dataset.copyPath) copy(location.origin + dataset.copyPath);
  if (dataset.copyFrom) copy($(dataset.copyFrom).textContent);
  if (dataset.copyUrl) {
    const answer = await fetch(dataset.copyUrl);
    copy(JSON.stringify(await answer.json(), null, 1));
  }
  if (dataset.load) {
    const answer = await fetch(dataset.load);
    if (answer.redirected) { leave(answer.url); return; }
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const dialog = $('#history');
    dialog.replaceChildren(...page.body.childNodes);
    dialog.showModal();
  }
});

// A click beside a dialog closes it, as Esc does.
document.addEventListener('mousedown', event => {
  if (event.target instanceof HTMLDialogElement && event.target.id !== 'add-keys') {
    const box = event.target.getBoundingClientRect();
    const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (!inside) event.target.close();
  }
});

// The error history is narrowed where it stands.
document.addEventListener('input', event => {
  if (!event.target.dataset?.narrow) return;
  const dialog = event.target.closest('dialog');
  const wanted = $('[data-narrow="class"]', dialog).value;
  const text = $('[data-narrow="text"]', dialog).value.toLowerCase();
  for (const row of $$('tbody tr', dialog)) {
    row.hidden = Boolean((wanted && row.dataset.class !== wanted) || (text && !row.textContent.toLowerCase().includes(text)));
  }
});

const PLACES = { o: '/', p: '/providers', r: '/requests', u: '/unknown', e: '/explain', a: '/alerts', n: '/agents', f: '/fallback', b: '/combos', s: '/settings', c: '/clients' };
let after = '';
document.addEventListener('keydown', event => {
  const typing = event.target.closest?.('input, textarea, select, [contenteditable]');
  if (typing || event.ctrlKey || event.metaKey || $('dialog[open]')) return;
  if (after === 'g' && PLACES[event.key]) { leave(PLACES[event.key]); return; }
  after = event.key === 'g' ? 'g' : '';
  if (event.key === '?') { event.preventDefault(); $('#shortcuts')?.showModal(); }
  if (event.key === '/') {
    event.preventDefault();
    const field = $('[data-search]');
    if (field) { field.focus(); field.select(); } else find();
  }
  if ((event.key === 'ArrowDown' || event.key === 'ArrowUp') && !event.altKey) moveBetweenRows(event);
});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape' && event.target.matches?.('[data-search]')) event.target.blur();
});

/** The arrows move between the rows of the list, at their first link or button. */
const moveBetweenRows = event => {
  const rows = $$('#main tbody tr, #main .pick > li').filter(row => row.offsetParent);
  const own = rows.indexOf(event.target.closest('tr, .pick > li'));
  if (own < 0 && event.target !== document.body && event.target.id !== 'main') return;
  const next = rows[own < 0 ? 0 : own + (event.key === 'ArrowDown' ? 1 : -1)];
  const place = next && $('a[href], th button, button', next);
  if (place) { event.preventDefault(); place.focus(); }
};

/** Finds pages, providers and settings by name. */
let places;
const find = async () => {
  const dialog = $('#find');
  if (!dialog) return;
  const input = $('#find-q');
  const list = $('#find-list');
  $('#side')?.matches(':popover-open') && $('#side').hidePopover();
  dialog.showModal();
  if (!places) {
    places = $$('.nav a').map(link => ({ name: link.firstChild.nextSibling?.textContent.trim() ?? link.textContent.trim(), path: link.getAttribute('href'), kind: 'Page' }));
    const [providers, settings] = await Promise.all(['/api/providers', '/api/settings'].map(path => fetch(path).then(answer => answer.ok ? answer.json() : [])));
    for (const { id } of providers) {
      for (const [name, end] of [['', ''], [': API Keys', '/keys'], [': Models', '/models'], [': Quota', '/quota']]) {
        places.push({ name: id + name, path: `/providers/${encodeURIComponent(id)}${end}`, kind: 'Provider' });
      }
    }
    for (const { name } of settings) places.push({ name, path: `/settings#${name}`, kind: 'Setting' });
  }
  let chosen = 0;
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = places.filter(place => words.every(word => place.name.toLowerCase().replaceAll('_', ' ').includes(word.replaceAll('_', ' ')))).slice(0, 12);
    chosen = Math.max(0, Math.min(chosen, found.length - 1));
    list.replaceChildren(...found.map((place, index) => make('li', { role: 'option', id: `found-${index}`, 'aria-selected': String(index === chosen) },
      make('a', { href: place.path, tabindex: '-1' }, make('span', { class: 'line' }, place.name, make('small', {}, place.kind))))));
    input.setAttribute('aria-activedescendant', found.length ? `found-${chosen}` : '');
    $(`#found-${chosen}`)?.scrollIntoView({ block: 'nearest' });
  };
  input.value = '';
  input.oninput = () => { chosen = 0; show(); };
  input.onkeydown = event => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') { event.preventDefault(); chosen += event.key === 'ArrowDown' ? 1 : -1; show(); }
    if (event.key === 'Enter') { event.preventDefault(); const link = $(`#found-${chosen} a`); if (link) { dialog.close(); leave(link.href); } }
  };
  show();
};
