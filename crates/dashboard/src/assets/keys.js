// The keys of a provider: use, rest, test, order, add.
const keysPath = () => $('[data-keys]')?.dataset.keys;
const rowOf = element => element.closest('tr[data-key]');
const took = ms => (ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);

/** Does something to keys. The last usable one is asked about, as the gateway demands. */
const act = async (button, ids, action, extra = {}) => {
  const send = confirm => call('POST', `${keysPath()}/bulk-action`, { ids, action, ...extra, confirm });
  let kept = false;
  const done = await doing(button, async () => {
    try {
      await send(false);
    } catch (problem) {
      if (problem.code !== 'last_usable_key') throw problem;
      const names = ids.length === 1 ? `“${$(`#key-${ids[0]}`)?.dataset.name}” is the last usable key` : 'These are the last usable keys';
      const sure = await ask(`${names} of this provider`, 'Without it, requests go to the fallback chain of the provider, or fail if there is none.', action === 'pause' ? 'Pause anyway' : 'Disable anyway');
      if (sure) await send(true); else kept = true;
    }
  });
  return done && !kept;
};
const BACK = { disable: 'enable', pause: 'resume' };
const DONE = { disable: 'disabled', enable: 'enabled', pause: 'paused', resume: 'resumed', reset: 'reset', end_rest: 'back in use' };
const actAndTell = async (button, ids, action, extra) => {
  const what = ids.length === 1 ? $(`#key-${ids[0]}`)?.dataset.name : `${ids.length} keys`;
  if (!(await act(button, ids, action, extra))) return;
  toast(`${what}: ${DONE[action]}`, BACK[action] && (() => act(null, ids, BACK[action])));
};
const pauseKeys = async (button, ids) => {
  if ((await choose($('#pause'))) !== 'pause') return;
  const seconds = $('#pause-for').value;
  await actAndTell(button, ids, 'pause', seconds ? { for_s: Number(seconds) } : {});
};
const deleteKeys = async (button, ids) => {
  const rows = ids.map(id => $(`#key-${id}`)).filter(Boolean);
  const filed = rows.filter(row => row.dataset.origin === 'file').length;
  const what = ids.length === 1 ? `“${rows[0]?.dataset.name}”` : `${ids.length} keys`;
  const note = filed ? ` ${filed} of them stand in the configuration file and stay.` : '';
  if (!(await ask(`Delete ${what}?`, `The secret is removed from this gateway for good, with its history.${note}`, 'Delete', ids.length > 1 ? String(ids.length) : undefined))) return;
  await doing(button, async () => {
    const results = await call('POST', `${keysPath()}/bulk-delete`, { ids });
    toast(`${results.filter(result => result.result === 'removed').length} deleted`);
  });
};
const testKey = (button, id) => doing(button, async () => {
  const report = await call('POST', `${keysPath()}/${id}/test`);
  toast(`${report.label}: ${said(report)}`);
});
/** What a test found, in a line. */
const said = report => {
  if (report.valid === true) return report.warning ? `works, but ${report.warning}` : `works, ${took(report.latency_ms)}`;
  const why = report.error ?? 'no reason given';
  return report.valid === false ? `refused${report.disabled ? ' and disabled' : ''}: ${why}` : `could not be told: ${why}`;
};

/** Selected keys survive what happens around them. */
const picked = new Set();
const showPicked = () => {
  const rows = $$('tr[data-key]');
  const here = new Set(rows.map(row => Number(row.dataset.key)));
  for (const id of picked) if (!here.has(id)) picked.delete(id);
  for (const row of rows) {
    const is = picked.has(Number(row.dataset.key));
    $('[data-pick]', row).checked = is;
    row.classList.toggle('picked', is);
  }
  const all = $('[data-all]');
  if (all) { all.checked = rows.length > 0 && picked.size === rows.length; all.indeterminate = picked.size > 0 && !all.checked; }
  const bulk = $('#bulk');
  if (bulk) { bulk.hidden = picked.size === 0; $('b', bulk).textContent = `${picked.size} selected`; }
};
document.addEventListener('change', event => {
  if (event.target.matches('[data-pick]')) {
    const id = Number(rowOf(event.target).dataset.key);
    if (event.target.checked) picked.add(id); else picked.delete(id);
    showPicked();
  }
  if (event.target.matches('[data-all]')) {
    picked.clear();
    if (event.target.checked) $$('tr[data-key]').forEach(row => picked.add(Number(row.dataset.key)));
    showPicked();
  }
});
document.addEventListener('refreshed', showPicked);

/** Moves keys: the whole order of this page is sent, so the gateway never guesses. */
const order = () => $$('tr[data-key]').map(row => Number(row.dataset.key));
const reorder = async (ids, tell) => {
  const first = Number($('tr[data-key] .pos')?.textContent ?? 1);
  await doing(null, async () => {
    // A later page begins behind the keys of the pages before it.
    let before = [];
    if (first > 1) {
      const all = await call('GET', `${keysPath()}?limit=1000`);
      before = all.items.slice(0, first - 1).map(key => key.id);
    }
    await call('POST', `${keysPath()}/reorder`, { ids: [...before, ...ids] });
    if (tell) toast(tell);
  });
};
const move = async (row, by) => {
  const ids = order();
  const from = ids.indexOf(Number(row.dataset.key));
  const to = from + by;
  if (to < 0 || to >= ids.length) return;
  ids.splice(to, 0, ...ids.splice(from, 1));
  await reorder(ids, `${row.dataset.name} is number ${to + 1}`);
};

let dragged;
document.addEventListener('pointerdown', event => {
  const grip = event.target.closest('.grip');
  if (!grip) return;
  event.preventDefault();
  dragged = { row: rowOf(grip), target: null, side: '' };
  dragged.row.classList.add('dragged');
  held = true;
  grip.setPointerCapture(event.pointerId);
});
document.addEventListener('pointermove', event => {
  if (!dragged) return;
  dragged.target?.classList.remove('drop-before', 'drop-after');
  const row = document.elementFromPoint(event.clientX, event.clientY)?.closest('tr[data-key]');
  dragged.target = row && row !== dragged.row ? row : null;
  if (!dragged.target) return;
  const box = row.getBoundingClientRect();
  dragged.side = event.clientY < box.top + box.height / 2 ? 'before' : 'after';
  row.classList.add(`drop-${dragged.side}`);
});
const drop = async commit => {
  if (!dragged) return;
  const { row, target, side } = dragged;
  dragged = undefined;
  held = false;
  row.classList.remove('dragged');
  target?.classList.remove('drop-before', 'drop-after');
  if (!commit || !target) return;
  const id = Number(row.dataset.key);
  const ids = order().filter(other => other !== id);
  ids.splice(ids.indexOf(Number(target.dataset.key)) + (side === 'after' ? 1 : 0), 0, id);
  await reorder(ids, `${row.dataset.name} moved`);
};
document.addEventListener('pointerup', () => drop(true));
document.addEventListener('pointercancel', () => drop(false));

document.addEventListener('keydown', event => {
  if (event.key === 'Escape') drop(false);
  const row = event.target.closest?.('tr[data-key]');
  if (!row || event.target.matches('input[type="text"]')) return;
  if (event.altKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
    event.preventDefault();
    const place = event.target;
    move(row, event.key === 'ArrowUp' ? -1 : 1).then(() => place.isConnected && place.focus());
  }
  if (event.key === 'x' && !event.ctrlKey && !event.metaKey) $('[data-pick]', row)?.click();
});

/** A label is edited where it stands: Enter keeps it, Esc does not. */
const rename = button => {
  const row = rowOf(button);
  const { key: id, version, name } = row.dataset;
  const input = make('input', { type: 'text', class: 'rename-field', 'aria-label': `Label of ${name}`, value: name });
  let over = false;
  const end = async keep => {
    if (over) return;
    over = true;
    const label = input.value.trim();
    input.replaceWith(button);
    button.focus();
    if (keep && label && label !== name) {
      await doing(button, () => call('PATCH', `${keysPath()}/${id}`, { label }, { 'if-match': `"${version}"` }));
    }
  };
  input.addEventListener('keydown', event => {
    if (event.key === 'Enter') { event.preventDefault(); end(true); }
    if (event.key === 'Escape') { event.preventDefault(); end(false); }
  });
  input.addEventListener('blur', () => end(true));
  button.replaceWith(input);
  input.focus();
  input.select();
};

let menuRow;
const openMenu = button => {
  const menu = $('#menu');
  menuRow = rowOf(button);
  const { state, origin } = menuRow.dataset;
  const shown = {
    end_rest: state === 'resting' || state === 'quarantined' || state === 'half_open',
    pause: state !== 'paused' && state !== 'disabled' && state !== 'locked',
    resume: state === 'paused',
    enable: state === 'disabled',
    test: state !== 'locked',
    account: origin !== 'file',
    delete: origin !== 'file',
  };
  $$('[data-item]', menu).forEach(item => { item.hidden = shown[item.dataset.item] === false; });
  $('hr', menu).hidden = !shown.delete;
  menu.showPopover({ source: button });
  $('[data-item]:not([hidden])', menu).focus();
};
document.addEventListener('keydown', event => {
  const item = event.target.closest?.('#menu [data-item]');
  if (!item || !['ArrowDown', 'ArrowUp'].includes(event.key)) return;
  event.preventDefault();
  const items = $$('#menu [data-item]:not([hidden])');
  items.at((items.indexOf(item) + (event.key === 'ArrowDown' ? 1 : -1)) % items.length).focus();
});
const fromMenu = async item => {
  const row = menuRow;
  const id = Number(row.dataset.key);
  const button = $('[data-menu]', row);
  $('#menu').hidePopover();
  switch (item) {
    case 'test': return testKey(button, id);
    case 'pause': return pauseKeys(button, [id]);
    case 'delete': return deleteKeys(button, [id]);
    case 'copy': return copy(String(id));
    case 'reset_counts':
      if (await ask(`Reset the counts of “${row.dataset.name}”?`, 'Its counts and its error history begin anew. Its state stays as it is.', 'Reset')) {
        await doing(button, () => call('DELETE', `${keysPath()}/${id}/stats`));
      }
      return undefined;
    case 'account': {
      const input = $('#account-name');
      input.value = $('.chip[title="Account"]', row)?.textContent ?? '';
      if ((await choose($('#account'))) !== 'save') return undefined;
      const account = input.value.trim() || null;
      return doing(button, () => call('PATCH', `${keysPath()}/${id}`, { account }, { 'if-match': `"${row.dataset.version}"` }));
    }
    default: return actAndTell(button, [id], item);
  }
};

/** Tests all keys one after the other; ending the stream stops it. */
let testing;
const testAll = async button => {
  const box = $('#testing');
  const bar = $('progress', box);
  const words = $('[role="status"]', box);
  const count = { good: 0, warned: 0, bad: 0, open: 0 };
  testing = new AbortController();
  box.hidden = false;
  button.disabled = true;
  words.textContent = 'Begins';
  bar.value = 0;
  let end = 'Testing is over';
  try {
    const answer = await fetch(`${keysPath()}/test-all`, { method: 'POST', signal: testing.signal });
    if (!answer.ok) throw await answer.json();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += value;
      const events = rest.split('\n\n');
      rest = events.pop();
      for (const event of events) {
        const kind = /^event: ?(.*)$/m.exec(event)?.[1];
        const data = /^data: ?(.*)$/m.exec(event)?.[1];
        if (!data) continue;
        const message = JSON.parse(data);
        if (kind === 'problem') throw message;
        const { report } = message;
        count[report.valid === false ? 'bad' : report.valid === null ? 'open' : report.warning ? 'warned' : 'good'] += 1;
        bar.max = message.total;
        bar.value = message.done;
        words.textContent = `${message.done} of ${message.total} · ${summary(count)}`;
        soon();
      }
    }
  } catch (problem) {
    if (problem.name === 'AbortError') end = 'Testing stopped'; else refuse(problem);
  }
  testing = undefined;
  box.hidden = true;
  await refresh();
  if (button.isConnected) button.disabled = false;
  toast(`${end}: ${summary(count) || 'no key was tested'}`);
};
const summary = count => [['good', 'good'], ['warned', 'with a warning'], ['bad', 'refused'], ['open', 'without an answer']]
  .filter(([kind]) => count[kind]).map(([kind, word]) => `${count[kind]} ${word}`).join(', ');

document.addEventListener('click', event => {
  const button = event.target.closest('button');
  if (!button || button.getAttribute('aria-busy') || !keysPath()) return;
  const row = rowOf(button);
  if ('switch' in button.dataset) {
    const on = button.getAttribute('aria-checked') === 'true';
    const { state } = row.dataset;
    actAndTell(button, [Number(row.dataset.key)], on ? 'disable' : state === 'paused' ? 'resume' : 'enable');
  }
  if (button.dataset.move) move(row, Number(button.dataset.move)).then(() => button.isConnected && button.focus());
  if ('rename' in button.dataset) rename(button);
  if ('menu' in button.dataset) openMenu(button);
  if (button.dataset.item) fromMenu(button.dataset.item);
  if (button.id === 'test-all') testAll(button);
  if ('stop' in button.dataset) testing?.abort();
  if (button.dataset.bulk) {
    const ids = [...picked];
    const action = button.dataset.bulk;
    if (action === 'pause') pauseKeys(button, ids);
    else if (action === 'delete') deleteKeys(button, ids);
    else if (action === 'test') testSome(button, ids);
    else actAndTell(button, ids, action);
  }
});
const testSome = (button, ids) => doing(button, async () => {
  const count = { good: 0, warned: 0, bad: 0, open: 0 };
  for (const id of ids) {
    const report = await call('POST', `${keysPath()}/${id}/test`);
    count[report.valid === false ? 'bad' : report.valid === null ? 'open' : report.warning ? 'warned' : 'good'] += 1;
    soon();
  }
  toast(summary(count));
});

// Adding: paste, test before saving, keep what works.
const addDialog = $('#add-keys');
if (addDialog) {
  const provider = addDialog.dataset.provider;
  const api = `/api/providers/${encodeURIComponent(provider)}`;
  const text = $('#paste');
  const results = $('#paste-results');
  const go = $('[data-add]', addDialog);
  const status = $('footer [role="status"]', addDialog);
  const wrong = $('.notice', addDialog);
  let stop;
  let tested = null;

  // The server reads lines in the same way: a key, a label and a key, or NAME=key.
  const lines = () => text.value.split('\n').map(line => line.trim()).filter(line => line && !line.startsWith('#'));
  const secretOf = line => {
    const plain = line.replace(/^export /, '').trimStart();
    const named = /^[A-Z0-9_]+=(.*[^=].*)$/.exec(plain);
    const secret = named ? named[1] : plain.split(/[\t, ]/).pop();
    return secret.trim().replace(/^(["'])(.*)\1$/, '$2');
  };
  const masked = secret => (secret.length > 12 ? `${secret.slice(0, 3)}…${secret.slice(-4)}` : '…');
  const reset = () => {
    tested = null;
    results.hidden = true;
    $('tbody', results).replaceChildren();
    wrong.hidden = true;
    status.textContent = '';
    go.textContent = $('#paste-test').checked ? 'Test and add' : 'Add';
    go.disabled = lines().length === 0;
  };
  const save = async keep => {
    const added = await call('POST', `${api}/keys/bulk`, { text: keep.join('\n'), account: $('#paste-account').value.trim() || null });
    const count = kind => added.filter(result => result.result === kind).length;
    addDialog.close();
    text.value = '';
    reset();
    await refresh();
    toast(`${count('added')} added${count('duplicate') ? `, ${count('duplicate')} were here already` : ''}`);
  };
  const test = async all => {
    const body = $('tbody', results);
    const bar = $('progress', results);
    const words = $('[role="status"]', results);
    stop = new AbortController();
    results.hidden = false;
    $('.testing', results).hidden = false;
    body.replaceChildren();
    bar.max = all.length;
    const keep = [];
    const seen = new Set();
    for (const [index, line] of all.entries()) {
      if (stop.signal.aborted) break;
      const secret = secretOf(line);
      words.textContent = `${index} of ${all.length}`;
      bar.value = index;
      let mark;
      let what;
      if (seen.has(secret)) {
        mark = badge('off', 'info', 'Twice in the list');
        what = 'Will be added once';
      } else {
        seen.add(secret);
        const answer = await fetch(`${api}/test`, { method: 'POST', signal: stop.signal, headers: { 'content-type': 'application/json' }, body: JSON.stringify({ key: secret }) }).catch(() => null);
        if (!answer) break;
        const report = await answer.json();
        if (!answer.ok) throw report;
        if (report.valid === true) {
          mark = report.warning ? badge('warn', 'warn', 'Good, with a warning') : badge('ok', 'tick', `Good, ${took(report.latency_ms)}`);
          what = report.warning ?? 'Will be added';
        } else if (report.valid === false) {
          mark = badge('bad', 'x', report.status ? `Refused, ${report.status}` : 'Refused');
          what = report.error ?? 'Will be left out';
        } else {
          mark = badge('off line', 'unknown', 'Not told');
          what = `${report.error ?? 'No answer'}. Will be added`;
        }
        if (report.valid !== false) keep.push(line);
      }
      body.append(make('tr', {}, make('th', { scope: 'row', class: 'mono' }, masked(secret)), make('td', { class: 'lead' }, mark), make('td', { class: 'dim full words' }, what)));
    }
    bar.value = bar.max;
    $('.testing', results).hidden = true;
    return { keep, done: body.rows.length, total: all.length };
  };
  go.addEventListener('click', async () => {
    const all = lines();
    wrong.hidden = true;
    go.disabled = true;
    try {
      if (!$('#paste-test').checked) return await save(all);
      if (!tested) {
        tested = await test(all);
        const { keep, done, total } = tested;
        status.textContent = `${keep.length} of ${done} can be added${done < total ? `, ${total - done} not tested` : ''}`;
        if (keep.length === done && done === total) return await save(keep);
        go.textContent = keep.length === 1 ? 'Add 1 key' : `Add ${keep.length} keys`;
        go.disabled = keep.length === 0;
        return undefined;
      }
      return await save(tested.keep);
    } catch (problem) {
      $('div', wrong).textContent = problem.detail ?? String(problem);
      wrong.hidden = false;
      go.disabled = false;
      return undefined;
    }
  });
  $('[data-stop]', results).addEventListener('click', () => stop?.abort());
  text.addEventListener('input', reset);
  $('#paste-test').addEventListener('change', reset);
  addDialog.addEventListener('close', () => { stop?.abort(); });
  reset();
}
