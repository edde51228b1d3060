// The door: a one-time link in the fragment, the password, or the admin token.
const door = $('#sign-in');
if (door) {
  const wrong = $('.notice', door);
  const enter = () => location.replace(door.dataset.then);
  const tell = problem => { $('div', wrong).textContent = problem.detail ?? problem.title ?? 'That did not work.'; wrong.hidden = false; };
  const useLink = token => call('POST', '/api/auth/link', { token });
  const link = location.hash.slice(1);
  if (link) {
    history.replaceState(null, '', location.pathname + location.search);
    useLink(link).then(enter, () => tell({ detail: 'This link has been used, or is older than ten minutes. Ask for a new one.' }));
  }
  door.addEventListener('submit', async event => {
    event.preventDefault();
    const secret = $('#secret').value.trim();
    const button = $('button[type="submit"]', door);
    button.setAttribute('aria-busy', 'true');
    try {
      if (secret.startsWith('bsa_')) {
        // The token is for programs; a page gets a session of its own for it.
        const made = await call('POST', '/api/auth/links', undefined, { authorization: `Bearer ${secret}` });
        await useLink(made.path.split('#')[1]);
      } else {
        await call('POST', '/api/auth/login', { password: secret });
      }
      enter();
    } catch (problem) {
      tell(problem);
      $('#secret').select();
    }
    button.removeAttribute('aria-busy');
  });
}
