// Builds a request from a form. The code examples and the fetch use it.
import type { HttpRequest } from './code-examples.ts'
import { select, selectAll } from './dom.ts'

// Looked up at each use, because the page of a schema has none of them.
export const keyForm = () => select<HTMLFormElement>('#key')
export const keyInput = () => select<HTMLInputElement>('#api-key')
export const tenantInput = () => select<HTMLInputElement>('#tenant')
/** The header that carries the key, and what precedes the key in it. */
export const keyHeader = () => {
  const { header: name = '', prefix = '' } = keyForm().dataset
  return { name, prefix }
}

export const needsKey = (form: HTMLFormElement) => form.dataset.open === undefined

type Input = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

const readBody = (input: Input) =>
  (input instanceof HTMLInputElement && input.type === 'file' ? input.files?.[0] : input.value.trim()) || undefined

export const buildRequest = (form: HTMLFormElement): HttpRequest => {
  const { method = 'GET', type = '' } = form.dataset
  const headers: HttpRequest['headers'] = []
  const query = new URLSearchParams()
  let path = form.dataset.path ?? ''
  let body: HttpRequest['body']
  for (const input of selectAll<Input>('[data-in]', form)) {
    const { name, value } = input
    const place = input.dataset.in
    if (place === 'body') body = readBody(input)
    else if (value === '') continue
    else if (place === 'path') path = path.replaceAll(`{${name}}`, encodeURIComponent(value))
    else if (place === 'header') headers.push([name, value])
    else for (const item of 'repeats' in input.dataset ? value.split(',') : [value]) query.append(name, item.trim())
  }
  const tenant = tenantInput().value.trim()
  if (tenant && needsKey(form)) headers.push(['X-Tenant-Id', tenant])
  if (body !== undefined) headers.push(['Content-Type', type])
  return {
    method,
    url: location.origin + path + (query.size > 0 ? `?${query}` : ''),
    headers,
    body,
    keyHeader: needsKey(form) ? keyHeader() : undefined,
  }
}
