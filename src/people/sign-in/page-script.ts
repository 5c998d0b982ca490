// The script of the sign-in page, as text: neither Node nor the Worker's bundler imports files as text.
export const pageScript = `const find = id => document.getElementById(id)
const call = (method, path, { headers, body } = {}) => {
  const allHeaders = { 'Content-Type': 'application/json', ...headers }
  return fetch(path, { method, headers: allHeaders, body: body && JSON.stringify(body) })
}
const say = text => { find('status').textContent = text }

/** The page after the sign-in. A URL of another origin is ignored. */
const NEXT = 'sign-in-next'
const given = new URLSearchParams(location.search).get('next') ?? sessionStorage.getItem(NEXT)
sessionStorage.removeItem(NEXT)
const next = given?.startsWith('/') && URL.canParse(given, location.origin) ? new URL(given, location.origin) : null
const goOn = () => next?.origin === location.origin && location.replace(next.href)
// The identity provider comes back without it.
find('oidc')?.addEventListener('click', () => given && sessionStorage.setItem(NEXT, given))

async function show() {
  const reply = await call('GET', '/v2/me')
  const me = reply.ok ? await reply.json() : null
  find('ways').hidden = me !== null
  find('signed-in').hidden = me === null
  if (!me) return
  goOn()
  find('who').textContent = me.member ? me.member.full_name ?? me.member.email : 'API key ' + me.api_key.description
  find('organization').textContent = me.organization.display_name
}

async function open(reply) {
  if (!reply.ok) {
    const { title, detail } = await reply.json()
    return say(title + '. ' + detail)
  }
  say('')
  await show()
}

find('key-form').addEventListener('submit', async event => {
  event.preventDefault()
  const headers = { 'X-Api-Key': find('key').value.trim() }
  find('key').value = ''
  await open(await call('POST', '/v2/me/sessions', { headers }))
})
find('sign-out').addEventListener('click', async () => {
  await call('DELETE', '/v2/me/sessions/current')
  await show()
})
async function useLink() {
  const token = location.hash.slice(1)
  if (!token) return show()
  // Neither the history nor a bookmark keeps the token.
  history.replaceState(null, '', location.pathname + location.search)
  const exchange = async () => {
    find('switch').hidden = true
    await open(await call('POST', '/sign-in/link', { body: { token } }))
  }
  await show()
  if (find('signed-in').hidden) return exchange()
  // The link may come from an attacker who wants this person to work in another account.
  find('use-link').onclick = exchange
  find('switch').hidden = false
}
// A link that is pasted while the page is open only changes the fragment.
addEventListener('hashchange', useLink)
await useLink()
`
