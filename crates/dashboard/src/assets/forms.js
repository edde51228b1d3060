// Forms: providers, settings, clients, combos, rules, first start.
const wrongIn = (form, problem) => {
  const box = $('.notice.bad', form);
  if (!box) return;
  $('div', box).textContent = problem ? problem.detail || problem.title || String(problem) : '';
  box.hidden = !problem;
  if (problem) box.scrollIntoView({ block: 'nearest' });
};
/** Does what a form is for, with its button busy; what is refused is told in the form. */
const submitting = async (form, work) => {
  const button = $('button[type="submit"]', form);
  button.setAttribute('aria-busy', 'true');
  wrongIn(form, null);
  sending += 1;
  try {
    await work();
    return true;
  } catch (problem) {
    if (problem instanceof Error) console.error(problem);
    wrongIn(form, problem);
    return false;
  } finally {
    sending -= 1;
    button.removeAttribute('aria-busy');
  }
};
const listOf = text => text.split(/[,\n]/).map(word => word.trim()).filter(Boolean);

// A provider: from a preset, or by its address.
const providerForm = $('[data-provider-form]');
if (providerForm) {
  const fields = providerForm.elements;
  const status = $('[role="status"]', providerForm);
  const chosen = () => fields.preset.selectedOptions[0];
  let named = false;
  const show = () => {
    const { base = '', keys = '', note = '', models = '' } = chosen().dataset;
    const own = !fields.preset.value;
    const keyless = 'keyless' in chosen().dataset;
    if (!named) fields.id.value = fields.preset.value;
    $('[data-path]', providerForm).textContent = `/proxy/${fields.id.value || '…'}`;
    $$('[data-own-only]', providerForm).forEach(element => { element.hidden = !own; });
    const open = own || base.includes('{');
    $('[data-base-field]', providerForm).hidden = !open;
    fields.base_url.required = open;
    if (!own && open && !fields.base_url.value) fields.base_url.value = base;
    $('[data-key-field]', providerForm).hidden = keyless;
    $('[data-note]', providerForm).textContent = note;
    const link = $('[data-keys-url]', providerForm);
    link.hidden = !keys;
    if (keys) link.href = keys;
    fields.models.value = models.split(' ').filter(Boolean).join('\n');
    status.textContent = '';
  };
  const definition = () => {
    const own = !fields.preset.value;
    const made = { id: fields.id.value.trim() };
    if (!own) made.preset = fields.preset.value; else made.format = fields.format.value;
    if (own || fields.base_url.required) made.base_url = fields.base_url.value.trim();
    if (own && fields.allow_private.checked) made.allow_private = true;
    return made;
  };
  fields.preset.addEventListener('change', show);
  fields.id.addEventListener('input', () => { named = Boolean(fields.id.value); $('[data-path]', providerForm).textContent = `/proxy/${fields.id.value || '…'}`; });
  $('[data-try]', providerForm).addEventListener('click', async event => {
    if (!providerForm.reportValidity()) return;
    const button = event.currentTarget;
    button.setAttribute('aria-busy', 'true');
    wrongIn(providerForm, null);
    status.textContent = 'Testing';
    try {
      const report = await call('POST', '/api/test', { definition: definition(), key: fields.key.value.trim() || null, model: listOf(fields.models.value)[0] ?? null });
      status.replaceChildren(report.valid === true ? badge('ok', 'tick', took(report.latency_ms)) : report.valid === false ? badge('bad', 'x', 'Refused') : badge('off line', 'unknown', 'Not told'), ` ${said(report)}`);
    } catch (problem) { status.textContent = ''; wrongIn(providerForm, problem); }
    button.removeAttribute('aria-busy');
  });
  providerForm.addEventListener('submit', event => {
    event.preventDefault();
    submitting(providerForm, async () => {
      const made = await call('POST', '/api/providers', definition());
      const path = `/api/providers/${encodeURIComponent(made.id)}`;
      const models = listOf(fields.models.value);
      if (models.length) await call('PUT', `${path}/models`, { models });
      const key = fields.key.value.trim();
      if (key && made.auth === 'managed') await call('POST', `${path}/keys`, { key });
      if (location.pathname === '/start') leave();
      else leave(`/providers/${encodeURIComponent(made.id)}/keys`);
    });
  });
  show();
}

// Settings: nothing is saved until it is said what changes.
for (const form of $$('[data-settings], [data-provider-settings]')) {
  const bar = $('.savebar', form);
  const now = field => (field.dataset.kind === 'switch' ? field.getAttribute('aria-checked') : field.value.trim());
  const changes = () => $$('[data-was]', form).filter(field => now(field) !== field.dataset.was);
  const valueOf = field => {
    const text = now(field);
    switch (field.dataset.kind) {
      case 'number': return Number(text);
      case 'switch': return text === 'true';
      case 'numbers': return listOf(text).map(Number);
      default: return text || null;
    }
  };
  const show = () => {
    const all = changes();
    bar.hidden = all.length === 0;
    $('b', bar).textContent = all.length === 1 ? '1 change, not saved:' : `${all.length} changes, not saved:`;
    $('span', bar).textContent = all.map(field => `${field.name} ${field.dataset.was || 'none'} → ${now(field) || 'none'}`).join(', ');
  };
  const save = async values => {
    if (form.dataset.settings) {
      await call('PATCH', '/api/settings', values);
    } else {
      const own = JSON.parse(form.dataset.definition);
      own.settings = { ...own.settings, ...values };
      for (const [name, value] of Object.entries(values)) if (value === null) delete own.settings[name];
      await call('PUT', form.dataset.providerSettings, own, { 'if-match': `"${form.dataset.version}"` });
    }
    leave();
  };
  form.addEventListener('input', show);
  form.addEventListener('reset', () => setTimeout(() => {
    for (const field of $$('[data-kind="switch"]', form)) field.setAttribute('aria-checked', field.dataset.was);
    show();
  }));
  form.addEventListener('click', event => {
    const field = event.target.closest('.switch[data-was]');
    if (field) { field.setAttribute('aria-checked', String(field.getAttribute('aria-checked') !== 'true')); show(); }
    const back = event.target.closest('[data-default]');
    if (back) doing(back, () => save({ [back.dataset.default]: null }));
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    const values = Object.fromEntries(changes().map(field => [field.name, valueOf(field)]));
    doing($('button[type="submit"]', form), () => save(values));
  });
  $('[data-settings-search]', form)?.addEventListener('input', event => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of $$('.set', form)) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
    for (const panel of $$('.panel', form)) panel.hidden = !$('.set:not([hidden])', panel);
  });
}

$('[data-password]')?.addEventListener('submit', event => {
  event.preventDefault();
  const form = event.target;
  doing($('button', form), async () => {
    await call('PUT', '/api/auth/password', { password: form.elements.password.value });
    location.assign('/sign-in');
  });
});

// Client keys.
const clientForm = $('[data-client-form]');
if (clientForm) {
  const dialog = $('#client');
  const fields = clientForm.elements;
  let edited;
  document.addEventListener('click', event => {
    const button = event.target.closest('[data-client]');
    if (!button) return;
    edited = button.dataset.client ? { ...button.dataset } : null;
    $('#client-t').textContent = edited ? `Change ${edited.name}` : 'Add a client';
    clientForm.reset();
    wrongIn(clientForm, null);
    if (edited) {
      fields.name.value = edited.name;
      fields.requests_per_minute.value = edited.rpm;
      fields.tokens_per_minute.value = edited.tpm;
      fields.spend.value = edited.spend ? Number(edited.spend) / 1e6 : '';
      fields.providers.value = edited.providers;
      fields.ends.value = edited.ends;
      fields.models.value = edited.models;
      fields.keep_bodies.checked = edited.keep === 'true';
    }
    dialog.showModal();
    fields.name.focus();
  });
  clientForm.addEventListener('submit', event => {
    event.preventDefault();
    const number = name => (fields[name].value ? Number(fields[name].value) : null);
    const limits = {
      providers: listOf(fields.providers.value),
      models: listOf(fields.models.value),
      routes: edited ? listOf(edited.routes) : [],
      requests_per_minute: number('requests_per_minute'),
      tokens_per_minute: number('tokens_per_minute'),
      spend_micros: fields.spend.value ? Math.round(Number(fields.spend.value) * 1e6) : null,
      keep_bodies: fields.keep_bodies.checked,
    };
    submitting(clientForm, async () => {
      const body = { name: fields.name.value.trim(), limits };
      if (fields.ends.value && fields.ends.value !== edited?.ends) body.expires_at = new Date(`${fields.ends.value}T23:59:59`).toISOString();
      const made = edited
        ? await call('PATCH', `/api/clients/${edited.client}`, body, { 'if-match': `"${edited.version}"` })
        : await call('POST', '/api/clients', body);
      dialog.close();
      await refresh();
      if (made.key) { $('#made-key').textContent = made.key; $('#made').showModal(); } else toast('Saved');
    });
  });
  $('#made').addEventListener('close', () => { $('#made-key').textContent = ''; });
}

// Combos: one member per line, `provider/model as name`.
const comboForm = $('[data-combo-form]');
if (comboForm) {
  const dialog = $('#combo');
  let edited;
  document.addEventListener('click', event => {
    const button = event.target.closest('[data-combo]');
    if (!button) return;
    edited = button.dataset.combo ? { ...button.dataset } : null;
    $('#combo-t').textContent = edited ? `Change ${edited.combo}` : 'Add a combo';
    $('#combo-id').value = edited?.combo ?? '';
    $('#combo-id').readOnly = Boolean(edited);
    $('#combo-members').value = edited?.members ?? '';
    wrongIn(comboForm, null);
    dialog.showModal();
  });
  comboForm.addEventListener('submit', event => {
    event.preventDefault();
    submitting(comboForm, async () => {
      const members = $('#combo-members').value.split('\n').map(line => line.trim()).filter(Boolean).map(line => {
        const [target, alias] = line.split(/\s+as\s+/);
        const slash = target.indexOf('/');
        if (slash < 1) throw { detail: `“${line}” is no member: write provider/model, or provider/model as name.` };
        return { provider: target.slice(0, slash), model: target.slice(slash + 1), alias: alias ?? null };
      });
      const combo = { id: $('#combo-id').value.trim(), members };
      if (edited) await call('PUT', `/api/combos/${encodeURIComponent(combo.id)}`, combo, { 'if-match': `"${edited.version}"` });
      else await call('POST', '/api/combos', combo);
      dialog.close();
      await refresh();
      toast('Saved');
    });
  });
}

// Explain: which fields are asked for.
const explainForm = $('[data-explain]');
explainForm?.addEventListener('click', event => {
  const button = event.target.closest('[data-kind]');
  if (!button) return;
  const { kind } = button.dataset;
  explainForm.elements.kind.value = kind;
  $$('[data-kind]', explainForm).forEach(other => other.setAttribute('aria-pressed', String(other === button)));
  $$('[data-for]', explainForm).forEach(field => { field.hidden = field.dataset.for !== kind; });
  $('label[for="xb"]', explainForm).textContent = { process: 'Output', transport: 'What had arrived' }[kind] ?? 'Body';
});

// A rule for an unknown failure: written in a form or as TOML, tried before it is saved.
const offerRule = () => {
  const ruleForm = $('[data-rule]:not([data-bound])');
  if (!ruleForm) return;
  ruleForm.dataset.bound = '';
  const fields = ruleForm.elements;
  const quote = text => JSON.stringify(text);
  let mine = '';
  const rule = () => {
    const lines = ['[[rule]]', `id = ${quote(fields.id.value.trim())}`, `kind = [${quote(ruleForm.dataset.failureKind)}]`];
    if (fields.status.value.trim()) lines.push(`status = [${Number(fields.status.value)}]`);
    if (fields.code.value.trim()) lines.push(`code = [${quote(fields.code.value.trim())}]`);
    if (fields.phrase.value.trim()) lines.push(`any = [${quote(fields.phrase.value.trim().toLowerCase())}]`);
    lines.push(`class = ${quote(fields.class.value)}`, `scope = ${quote(fields.scope.value)}`, `reason = ${quote(fields.reason.value.trim())}`, 'source = "written on the page Unknown failures"');
    return `${lines.join('\n')}\n`;
  };
  /** One pack of a person's own per provider; a new rule joins those that stand in it. */
  const pack = () => ruleForm.dataset.provider;
  const text = () => (fields.toml.closest('[data-part]').hidden ? whole() : fields.toml.value);
  const whole = () => (mine ? `${mine.trimEnd()}\n\n${rule()}` : `provider = ${quote(pack())}\n\n${rule()}`);
  const loaded = fetch('/api/user-rules').then(answer => answer.json()).then(packs => { mine = packs.find(other => other.name === pack())?.toml ?? ''; });
  const show = trial => {
    const shape = ruleForm.dataset.rule;
    const own = trial.inbox.find(change => change.subject === shape);
    const rows = [
      ['This inbox', `${trial.inbox.length} of ${$$('.pick > li').length} shapes`, trial.inbox.length ? 'would be known' : 'nothing would change'],
      ['This failure', own ? own.after : 'still unknown', own ? `by ${own.rule}` : 'the rule does not match it'],
      ['The log', `${trial.log.length} of ${trial.log_size} failures`, trial.log.length ? [...new Set(trial.log.map(change => `${change.before} → ${change.after}`))].slice(0, 4).join('; ') : 'None of the kept failures reads differently'],
      ['Known failures', trial.witnesses.length ? `${trial.witnesses.length} change` : 'Nothing', trial.witnesses.length ? trial.witnesses.slice(0, 4).map(change => `${change.subject}: ${change.before} → ${change.after}`).join('; ') : 'No known failure reads differently'],
    ];
    $('[data-effect]', ruleForm).replaceChildren(...rows.map(([name, value, note]) => make('div', {}, make('dt', {}, name), make('dd', {}, value), make('dd', {}, note))));
  };
  const tryOut = async () => {
    await loaded;
    wrongIn(ruleForm, null);
    try { show(await call('POST', '/api/rules/try', { name: pack(), toml: text() })); } catch (problem) { wrongIn(ruleForm, problem); }
  };
  let pause;
  ruleForm.addEventListener('input', () => { clearTimeout(pause); pause = setTimeout(tryOut, 500); });
  $('[data-rule-try]', ruleForm).addEventListener('click', tryOut);
  $('[data-rule-copy]', ruleForm).addEventListener('click', () => copy(text()));
  for (const button of $$('[data-write]', ruleForm.closest('section'))) {
    button.addEventListener('click', async () => {
      await loaded;
      if (button.dataset.write === 'toml') fields.toml.value = whole();
      $$('[data-part]', ruleForm).forEach(part => { part.hidden = part.dataset.part !== button.dataset.write; });
      $$('[data-write]', ruleForm.closest('section')).forEach(other => other.setAttribute('aria-pressed', String(other === button)));
      for (const field of [fields.id, fields.reason]) field.disabled = button.dataset.write === 'toml';
    });
  }
  ruleForm.addEventListener('submit', event => {
    event.preventDefault();
    submitting(ruleForm, async () => {
      await loaded;
      await call('POST', `/api/unknown/${encodeURIComponent(ruleForm.dataset.rule)}/rule`, { name: pack(), toml: text() });
      leave('/unknown');
    });
  });
  tryOut();
};
offerRule();
document.addEventListener('refreshed', offerRule);

// First start.
document.addEventListener('submit', event => {
  const form = event.target.closest('[data-start-key]');
  if (!form) return;
  event.preventDefault();
  submitting(form, async () => {
    await call('POST', `/api/providers/${encodeURIComponent(form.dataset.startKey)}/keys`, { key: $('#start-key').value.trim() });
    leave();
  });
});
document.addEventListener('click', event => {
  const snippet = event.target.closest('[data-snippet]');
  if (snippet) {
    $$('[data-snippet]').forEach(other => other.setAttribute('aria-pressed', String(other === snippet)));
    $$('[data-for-snippet]').forEach(box => { box.hidden = box.dataset.forSnippet !== snippet.dataset.snippet; });
  }
  const client = event.target.closest('[data-start-client]');
  if (client) {
    doing(client, async () => {
      const made = await call('POST', '/api/clients', { name: 'first client' });
      $$('[data-token]').forEach(place => { place.textContent = made.key; });
      client.hidden = true;
      $('[data-made]').hidden = false;
    });
  }
});
