// The script of the API pages. A string, since neither Node nor the Worker's bundler can import a file as text yet:
// plain JavaScript without template literals. Its first part is pure, and tested on a shell.

// The key stays out of the command, and so out of shell histories and screenshots.
export const curlScript = String.raw`
const quote = text => "'" + text.replaceAll("'", "'\\''") + "'"

const curlOf = ({ method, url, headers, body, auth }) => {
  const parts = ['curl ' + (method === 'GET' ? '' : '-X ' + method + ' ') + quote(url)]
  if (auth) parts.push('-H "' + auth + '$API_KEY"')
  for (const [name, value] of headers) parts.push('-H ' + quote(name + ': ' + value))
  if (body instanceof File) parts.push('--data-binary ' + quote('@' + body.name))
  else if (body !== undefined) parts.push('--data-raw ' + quote(body))
  return parts.join(' \\\n  ')
}
`

// What was typed, as a request: the one source of both the curl command and the fetch.
const requestScript = `
const all = (selector, root = document) => [...root.querySelectorAll(selector)]
const one = (selector, root = document) => root.querySelector(selector)
const part = (form, name) => one('[data-show=' + name + ']', form)
const key = one('#api-key')
const tenant = one('#tenant')
const { header, prefix } = one('#key').dataset

const requestOf = form => {
  const { method, path, type, open } = form.dataset
  const request = { method, path, headers: [], type, body: undefined, auth: open === undefined && header + ': ' + prefix }
  const query = new URLSearchParams()
  for (const input of all('[data-in]', form)) {
    const { name, value } = input
    const place = input.dataset.in
    if (place === 'body') request.body = input.type === 'file' ? input.files[0] : value.trim() || undefined
    else if (value === '') continue
    else if (place === 'path') request.path = request.path.replaceAll('{' + name + '}', encodeURIComponent(value))
    else if (place === 'header') request.headers.push([name, value])
    else for (const each of 'repeats' in input.dataset ? value.split(',') : [value]) query.append(name, each.trim())
  }
  if (tenant.value && request.auth) request.headers.push(['X-Tenant-Id', tenant.value.trim()])
  if (request.body !== undefined) request.headers.push(['Content-Type', type])
  request.url = location.origin + request.path + (query.size ? '?' + query : '')
  return request
}
`

// JSON is set anew only where a parse keeps every digit; an event stream is shown as it comes.
const responseScript = String.raw`
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

const paintJson = (target, text) => {
  const parts = []
  let from = 0
  for (const match of text.matchAll(TOKEN)) {
    const span = document.createElement('span')
    span.className = match[2] ? 'k' : match[1] ? 'v' : 'n'
    span.textContent = match[1] ?? match[0]
    parts.push(text.slice(from, match.index), span)
    from = match.index + span.textContent.length
  }
  target.replaceChildren(...parts, text.slice(from))
}

const showBody = async (target, response) => {
  const type = response.headers.get('content-type') ?? ''
  if (type.includes('event-stream')) {
    target.textContent = ''
    for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
      const { done, value } = await reader.read()
      if (done) return
      target.append(value)
    }
  }
  if (!/json|text|xml|^$/.test(type)) return target.replaceChildren('(' + type + ', not shown)')
  const text = await response.text()
  target.textContent = text || '(empty)'
  try {
    const tidy = JSON.stringify(JSON.parse(text), null, 2)
    if (text.length < 200000) paintJson(target, /\d{16}/.test(text) ? text : tidy)
  } catch {}
}
`

// After an unclear end the Idempotency-Key stays, so that pressing again is a safe repeat.
const sendScript = String.raw`
const refresh = form => {
  part(form, 'curl').textContent = curlOf(requestOf(form))
  const missing = !key.value && form.dataset.open === undefined
  const link = document.createElement('a')
  link.href = '#authentication'
  link.textContent = 'No key yet: add yours'
  part(form, 'note').replaceChildren(...(missing ? [link] : []))
}

const freshKey = form => {
  const input = one('[data-fresh]', form)
  if (input) input.value = crypto.randomUUID?.() ?? Date.now() + '-' + Math.random().toString(36).slice(2)
}

const running = new WeakMap()

const send = async form => {
  const button = one('.primary', form)
  const status = part(form, 'status')
  const stop = new AbortController()
  running.set(form, stop)
  button.textContent = 'Stop'
  part(form, 'answer').hidden = false
  status.className = 'status'
  status.textContent = 'Waiting …'
  part(form, 'headers').textContent = part(form, 'body').textContent = ''
  status.scrollIntoView({ block: 'nearest' })
  const began = performance.now()
  try {
    const { method, url, headers, body, auth } = requestOf(form)
    if (key.value && auth) headers.push([header, prefix + key.value.trim()])
    const response = await fetch(url, { method, headers, body, signal: stop.signal, credentials: 'omit', cache: 'no-store' })
    status.className = 'status s' + String(response.status)[0]
    status.textContent = [response.status, response.statusText, '·', Math.round(performance.now() - began), 'ms'].join(' ')
    part(form, 'headers').textContent = [...response.headers].map(pair => pair.join(': ')).join('\n')
    if (response.status < 500) freshKey(form)
    await showBody(part(form, 'body'), response)
  } catch (error) {
    if (error.name === 'AbortError') status.textContent += ' · stopped'
    else {
      status.className = 'status s5'
      status.textContent = 'No answer'
      part(form, 'body').textContent = error.message
    }
  }
  running.delete(form)
  button.textContent = 'Send'
  refresh(form)
}

const copy = async (button, text) => {
  const done = await navigator.clipboard?.writeText(text).then(() => true, () => false)
  button.textContent = done ? 'Copied' : 'Select and copy'
  setTimeout(() => { button.textContent = 'Copy' }, 1500)
}
`

const controlsScript = `
const forms = all('form.try')
const remember = () => {
  for (const input of [key, tenant]) {
    if (input.value) sessionStorage.setItem('slipway.' + input.id, input.value)
    else sessionStorage.removeItem('slipway.' + input.id)
  }
  forms.forEach(refresh)
}

const actions = {
  copy: (button, form) => copy(button, part(form, 'curl').textContent),
  fresh: (_, form) => { freshKey(form); refresh(form) },
  forget: () => { key.value = tenant.value = ''; remember() },
  reveal: button => {
    const shown = key.type === 'password'
    key.type = shown ? 'text' : 'password'
    button.textContent = shown ? 'Hide' : 'Show'
    button.setAttribute('aria-pressed', shown)
  },
}

for (const input of [key, tenant]) input.value = sessionStorage.getItem('slipway.' + input.id) ?? ''
for (const form of forms) {
  freshKey(form)
  refresh(form)
  form.hidden = false
  form.addEventListener('input', () => refresh(form))
  form.addEventListener('submit', event => {
    event.preventDefault()
    if (running.has(form)) running.get(form).abort()
    else send(form)
  })
}
one('#key').hidden = false
one('#key').addEventListener('input', remember)
one('#key').addEventListener('submit', event => event.preventDefault())

document.addEventListener('click', event => {
  const button = event.target.closest('[data-do]')
  if (button) actions[button.dataset.do](button, button.closest('form'))
})
`

// A link into something folded unfolds it; the menu is folded on narrow screens, and shows where the reader is.
const navigationScript = String.raw`
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
  for (let at = target; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true
}
addEventListener('hashchange', unfold)
unfold()

const filter = one('#filter')
const items = all('[data-find]')
filter.addEventListener('input', () => {
  const words = filter.value.toLowerCase().split(/\s+/)
  let found = 0
  for (const item of items) {
    const text = (item.dataset.find + ' ' + item.textContent).toLowerCase()
    item.hidden = !words.every(word => text.includes(word))
    if (!item.hidden) found++
  }
  for (const list of all('nav ul')) {
    const empty = filter.value !== '' && !one('li[data-find]:not([hidden])', list)
    list.hidden = empty
    if (list.previousElementSibling) list.previousElementSibling.hidden = empty
  }
  one('#found').textContent = filter.value ? found + ' of ' + items.length + ' operations' : ''
})
filter.addEventListener('keydown', event => {
  if (event.key === 'Enter') one('nav li[data-find]:not([hidden]) a')?.click()
  if (event.key === 'Escape') { filter.value = ''; filter.dispatchEvent(new Event('input')); filter.blur() }
})

const menu = one('.menu')
const wide = matchMedia('(min-width: 60rem)')
const fit = () => { menu.open = wide.matches }
wide.addEventListener('change', fit)
fit()
one('nav').addEventListener('click', event => { if (event.target.closest('a')) fit() })
document.addEventListener('keydown', event => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select')) return
  event.preventDefault()
  menu.open = true
  filter.focus()
})

const links = new Map(all('nav a').map(link => [decodeURIComponent(link.hash.slice(1)), link]))
const watch = new IntersectionObserver(entries => {
  const seen = entries.find(entry => entry.isIntersecting)
  if (!seen) return
  for (const link of links.values()) link.removeAttribute('aria-current')
  const link = links.get(seen.target.id)
  link.setAttribute('aria-current', 'true')
  if (wide.matches) link.scrollIntoView({ block: 'nearest' })
}, { rootMargin: '-15% 0px -80% 0px' })
for (const id of links.keys()) {
  const section = document.getElementById(id)
  if (section) watch.observe(section)
}
`

export const clientScript = curlScript + requestScript + responseScript + sendScript + controlsScript + navigationScript
