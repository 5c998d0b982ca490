// The script of the page that lets a browser see a protected deployment: it gets a grant and goes back. The path is in
// the fragment, and stays in this tab during a sign-in, so no server of ours reads it.
export const deploymentPageScript = `const find = id => document.getElementById(id)
const PATH = 'deployment-path'
const given = new URLSearchParams(location.search)
const path = location.hash.slice(1) || sessionStorage.getItem(PATH) || ''
history.replaceState(null, '', location.pathname + location.search)

function signIn() {
  sessionStorage.setItem(PATH, path)
  location.replace('/sign-in?next=' + encodeURIComponent(location.pathname + location.search))
}

async function explain(reply) {
  const { title, detail } = await reply.json().catch(() => ({ title: 'Something went wrong', detail: 'Try again.' }))
  find('status').textContent = reply.status === 404 || reply.status === 403 ? '' : title + '. ' + detail
  find('progress').hidden = true
  const me = await fetch('/v2/me')
  if (me.ok) {
    const { member, api_key, organization } = await me.json()
    find('who').textContent = member ? member.full_name ?? member.email : 'API key ' + api_key.description
    find('organization').textContent = organization.display_name
  }
  find('host').textContent = given.get('host') ?? ''
  find('refused').hidden = false
}

const reply = await fetch('/v2/deployments/' + encodeURIComponent(given.get('deployment') ?? '') + '/access-grants', {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', 'X-Tenant-Id': given.get('workspace') ?? '' },
  body: JSON.stringify({ host: given.get('host') ?? '', state: given.get('state') ?? '' }),
})
if (reply.status === 401) signIn()
else if (!reply.ok) await explain(reply)
else {
  sessionStorage.removeItem(PATH)
  const { url, grant } = await reply.json()
  location.replace(url + '#' + new URLSearchParams({ grant, path: decodeURIComponent(path) }))
}
`
