// Sends the request of a form, or stops the one that is running.
import { codeExamples } from './code-examples.ts'
import { outputOf, select } from './dom.ts'
import { buildRequest, keyInput, needsKey } from './request.ts'
import { showBody } from './response.ts'

export const refreshForm = (form: HTMLFormElement) => {
  const { value } = select<HTMLSelectElement>('#language', form)
  outputOf(form, 'code').textContent = codeExamples[value]!(buildRequest(form))
  const link = document.createElement('a')
  link.href = '#authentication'
  link.textContent = 'No key yet: add yours'
  const isKeyMissing = !keyInput().value && needsKey(form)
  outputOf(form, 'note').replaceChildren(...(isKeyMissing ? [link] : []))
}

export const renewIdempotencyKey = (form: HTMLFormElement) => {
  const input = form.querySelector<HTMLInputElement>('[data-fresh]')
  // Browsers offer randomUUID in secure contexts only, and a development server is often plain HTTP.
  if (input) input.value = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`
}

const running = new WeakMap<HTMLFormElement, AbortController>()

const fetchInto = async (form: HTMLFormElement, signal: AbortSignal) => {
  const status = outputOf(form, 'status')
  const startedAt = performance.now()
  const { method, url, headers, body, keyHeader } = buildRequest(form)
  const key = keyInput().value.trim()
  if (key && keyHeader) headers.push([keyHeader.name, keyHeader.prefix + key])
  const response = await fetch(url, {
    method,
    headers,
    body: body ?? null,
    signal,
    credentials: 'omit',
    cache: 'no-store',
  })
  const elapsed = Math.round(performance.now() - startedAt)
  status.className = `status s${String(response.status)[0]}`
  status.textContent = `${response.status} ${response.statusText} · ${elapsed} ms`
  outputOf(form, 'headers').textContent = [...response.headers].map(pair => pair.join(': ')).join('\n')
  // After a server error the outcome is unknown: with the same Idempotency-Key, a second send is a safe retry.
  if (response.status < 500) renewIdempotencyKey(form)
  await showBody(outputOf(form, 'body'), response)
}

const send = async (form: HTMLFormElement) => {
  const button = select('.primary', form)
  const status = outputOf(form, 'status')
  const abort = new AbortController()
  running.set(form, abort)
  button.textContent = 'Stop'
  outputOf(form, 'answer').hidden = false
  status.className = 'status'
  status.textContent = 'Waiting …'
  outputOf(form, 'headers').textContent = ''
  outputOf(form, 'body').textContent = ''
  status.scrollIntoView({ block: 'nearest' })
  try {
    await fetchInto(form, abort.signal)
  } catch (error) {
    if (abort.signal.aborted) status.textContent += ' · stopped'
    else {
      status.className = 'status s5'
      status.textContent = 'No response'
      outputOf(form, 'body').textContent = error instanceof Error ? error.message : String(error)
    }
  }
  running.delete(form)
  button.textContent = 'Send'
  refreshForm(form)
}

export const sendOrStop = (form: HTMLFormElement) => {
  const abort = running.get(form)
  if (abort) abort.abort()
  else void send(form)
}
