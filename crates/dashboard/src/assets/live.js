// Live: follow what happens, ask for the page again, and put only the differences in place.

/** Makes `old` look like `next` without touching what is equal, focused, typed, opened or owned by the script. */
const morph = (old, next) => {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || (old.id && next.id && old.id !== next.id)) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  if ('own' in old.dataset || old.isEqualNode(next)) return;
  const kept = name => name === 'hidden' && ('own' in old.dataset) || name === 'open' || name === 'aria-busy';
  for (const { name, value } of [...next.attributes]) if (!kept(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!kept(name) && !next.hasAttribute(name)) old.removeAttribute(name);
  if (old.matches('input, textarea, select') || old.contains(document.activeElement) && document.activeElement.matches('.rename-field')) return;
  const byId = new Map([...old.children].filter(child => child.id).map(child => [child.id, child]));
  let place = old.firstChild;
  for (const child of [...next.childNodes]) {
    const twin = child.id ? byId.get(child.id) : place && !(place.id) && place.nodeName === child.nodeName ? place : null;
    if (twin) {
      if (twin === place) place = place.nextSibling;
      else old.insertBefore(twin, place);
      morph(twin, child);
    } else {
      old.insertBefore(child, place);
    }
  }
  while (place) { const next = place.nextSibling; if (!place.dataset || !('own' in place.dataset) || place.id) place.remove(); place = next; }
};

// Nothing moves under a finger: what is pressed stays where it is until it is let go.
let pressing = null;
document.addEventListener('pointerdown', () => {
  pressing = new Promise(resolve => {
    const over = () => { pressing = null; setTimeout(resolve); };
    addEventListener('pointerup', over, { once: true });
    addEventListener('pointercancel', over, { once: true });
  });
}, true);

// A page that is about to be left, or whose form is on its way, shows nothing new: what it would offer is gone at once.
let leaving = false;
let sending = 0;
const leave = path => { leaving = true; if (path) location.assign(path); else location.reload(); };
for (const stayed of ['pageshow', 'hashchange']) addEventListener(stayed, () => { leaving = false; });

let asking = null;
let again = false;
/** Reads the page again. Calls that come while one is under way are answered by one more. */
const refresh = () => {
  if (leaving) return Promise.resolve();
  if (asking) { again = true; return asking; }
  asking = (async () => {
    do {
      again = false;
      const answer = await fetch(location.href, { headers: { accept: 'text/html' } }).catch(() => null);
      if (!answer) { stale(true); return; }
      if (answer.redirected && new URL(answer.url).pathname === '/sign-in') { leave(answer.url); return; }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (pressing) await pressing;
      if (leaving || sending) return;
      for (const selector of ['#main', '.side .nav', '.side-head', '.top']) {
        const [old, next] = [$(selector), $(selector, page)];
        if (old && next) morph(old, next);
      }
      document.dispatchEvent(new Event('refreshed'));
    } while (again);
  })().finally(() => { asking = null; });
  return asking;
};

const stale = is => {
  const notice = $('#stale');
  if (!notice) return;
  if (is && notice.hidden) $('[data-stale-at]', notice).textContent = ` at ${$('[data-clock]')?.textContent ?? new Date().toLocaleTimeString()}`;
  notice.hidden = !is;
  notice.toggleAttribute('data-own', true);
  $$('[data-pulse]').forEach(pulse => pulse.classList.toggle('stale', is));
};

let held = false;
let waiting;
/** A page shows at most one change a second, and none while the list is held. */
const soon = () => {
  if (held || sending || document.hidden) return;
  waiting ??= setTimeout(() => { waiting = undefined; refresh(); }, 700);
};

const follow = () => {
  const source = new EventSource('/api/events');
  let failures;
  source.onopen = () => { clearTimeout(failures); failures = undefined; if (!$('#stale').hidden) { stale(false); refresh(); } };
  source.onerror = () => {
    failures ??= setTimeout(() => stale(true), 2000);
    // A browser gives up on an answer that is no stream: the session has ended, or too many pages listen.
    if (source.readyState === EventSource.CLOSED) { clearTimeout(failures); stale(true); refresh(); setTimeout(follow, 10000); }
  };
  for (const kind of ['key', 'request', 'notification', 'store', 'changed', 'resync']) source.addEventListener(kind, soon);
  addEventListener('pagehide', () => source.close());
};

/** Countdowns run on between two readings. */
const countdown = seconds => {
  const two = number => String(number).padStart(2, '0');
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${two(minutes)}:${two(seconds % 60)}`;
};
const tick = () => {
  for (const element of $$('[data-until]')) {
    const left = Math.max(0, Math.round((Date.parse(element.dataset.until) - Date.now()) / 1000));
    const text = countdown(left);
    if (element.textContent !== text) element.textContent = text;
    if (left === 0 && !('over' in element.dataset)) { element.dataset.over = ''; soon(); }
  }
};

if ('live' in document.body.dataset) {
  follow();
  setInterval(tick, 1000);
  setInterval(() => { if (!held && !sending && !document.hidden && $('#stale').hidden) refresh(); }, 15000);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
  if (zone && !zoneWasKnown) refresh();
}
