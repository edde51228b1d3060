// Lists that are edited as a whole: models, fallback chains, members of combos. And the list that can be held.
const holdButton = $('[data-hold]');
holdButton?.addEventListener('click', () => {
  held = !held;
  holdButton.setAttribute('aria-pressed', String(held));
  holdButton.lastChild.textContent = held ? 'Go on' : 'Hold the list';
  holdButton.toggleAttribute('data-own', held);
  if (!held) refresh();
});

/** The values of a list's rows, in order: a word, or the fields of a row. */
const valuesOf = list => $$(':scope > li', list).map(row => JSON.parse(row.dataset.value));
const sendList = (button, list, values, tell) => doing(button, async () => {
  await call('PUT', list.dataset.path, { [list.dataset.name]: values });
  if (tell) toast(tell);
});
document.addEventListener('click', async event => {
  const button = event.target.closest('[data-list]');
  if (!button || button.getAttribute('aria-busy')) return;
  const row = button.closest('li');
  const list = row?.closest('[data-path]') ?? $(button.dataset.target);
  const values = valuesOf(list);
  const own = row ? $$(':scope > li', list).indexOf(row) : -1;
  const before = [...values];
  switch (button.dataset.list) {
    case 'up': case 'down': {
      const to = own + (button.dataset.list === 'up' ? -1 : 1);
      if (to < 0 || to >= values.length) return;
      values.splice(to, 0, ...values.splice(own, 1));
      await sendList(button, list, values);
      break;
    }
    case 'remove':
      values.splice(own, 1);
      if (await sendList(button, list, values)) toast('Removed', () => sendList(null, list, before));
      break;
    case 'fetch':
      await doing(button, async () => {
        const offer = await call('POST', `${list.dataset.path}/fetch?force=true`);
        const box = $('#offer');
        const fresh = offer.models.filter(model => !values.includes(model));
        $('[data-text]', box).textContent = `${offer.models.length} models are offered, ${fresh.length} of them are not in the list.`;
        $('ul', box).replaceChildren(...fresh.map(model => make('li', {}, make('label', { class: 'check' }, make('input', { type: 'checkbox', value: model }), make('span', { class: 'mono' }, model), ...(offer.free.includes(model) ? [' ', badge('ok bare', 'check', 'Free')] : [])))));
        box.showModal();
      });
      break;
    case 'take':
      $('#offer').close();
      await sendList(button, list, [...values, ...$$('#offer input:checked').map(input => input.value)], 'Models added');
      break;
  }
});
document.addEventListener('submit', async event => {
  const form = event.target.closest('form[data-add-to]');
  if (!form) return;
  event.preventDefault();
  const list = $(form.dataset.addTo);
  const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim() || null]));
  const value = 'item' in fields ? fields.item : fields;
  if (!value) return;
  if (await sendList($('button', form), list, [...valuesOf(list), value])) form.reset();
});
