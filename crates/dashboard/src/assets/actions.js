// Actions: every change is one call of the API; afterwards the page is read again.

/** Calls the API. Returns the answer's JSON, or throws the problem that it tells. */
const call = async (method, path, body, headers = {}) => {
  const options = { method, headers: { ...headers } };
  if (body !== undefined) {
    options.headers['content-type'] = 'application/json';
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw { title: 'The gateway does not answer', detail: 'Nothing was changed as far as this page knows. Look again when it is back.' };
  }
  if (answer.status === 401 && 'live' in document.body.dataset) {
    leave(`/sign-in?then=${encodeURIComponent(location.pathname + location.search)}`);
    throw { title: 'Your session has ended', detail: 'Sign in again.' };
  }
  const text = await answer.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { /* An answer without JSON carries its status alone. */ }
  if (!answer.ok) throw value ?? { title: `The gateway answered ${answer.status}`, detail: '' };
  return value;
};

/** Does something with its button busy; tells what was refused. Returns whether it went well. */
const doing = async (button, work) => {
  button?.setAttribute('aria-busy', 'true');
  try {
    await work();
    const box = $('#refused');
    if (box) box.hidden = true;
    return true;
  } catch (problem) {
    if (problem instanceof Error) console.error(problem);
    refuse(problem);
    return false;
  } finally {
    button?.removeAttribute('aria-busy');
    await refresh();
  }
};

// Buttons that say all in their markup: data-call="METHOD /path", data-body, data-ask…, data-done, data-then, data-undo.
document.addEventListener('click', async event => {
  const button = event.target.closest('[data-call]');
  if (!button || button.getAttribute('aria-busy')) return;
  // What the button says changes with what it does.
  const dataset = { ...button.dataset };
  if (dataset.ask && !(await ask(dataset.ask, dataset.askText ?? '', dataset.askDo ?? 'Go on', dataset.askName))) return;
  const parsed = text => (text ? JSON.parse(text) : undefined);
  const [method, path] = dataset.call.split(' ');
  let told;
  const done = await doing(button, async () => { told = await call(method, path, parsed(dataset.body)); });
  if (!done) return;
  button.closest('dialog')?.close();
  if (dataset.then) { leave(dataset.then); return; }
  if (dataset.tell) toast(`${told[dataset.tell] ? 'It was taken' : 'It was not taken'}: ${told.answer}`);
  if (dataset.done) {
    const undo = dataset.undo && (() => { const [back, way] = dataset.undo.split(' '); doing(null, () => call(back, way, parsed(dataset.undoBody))); });
    toast(dataset.done, undo);
  }
});

// Filters are part of the address, so that it can be shared.
const filterForm = $('#filter');
if (filterForm) {
  const apply = () => {
    const wanted = new URLSearchParams(new FormData(filterForm));
    for (const [name, value] of [...wanted]) if (!value) wanted.delete(name);
    const query = wanted.toString();
    history.replaceState(null, '', query ? `?${query}` : location.pathname);
    refresh();
  };
  let pause;
  filterForm.addEventListener('submit', event => { event.preventDefault(); apply(); });
  filterForm.addEventListener('input', event => {
    clearTimeout(pause);
    pause = setTimeout(apply, event.target.type === 'search' ? 250 : 0);
  });
}
