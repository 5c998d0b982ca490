// Writes a request as code: a curl command for a POSIX shell, JavaScript for Node, Python without packages. Pure.

export interface HttpRequest {
  method: string
  url: string
  headers: [name: string, value: string][]
  body: string | File | undefined
  /** The header that carries the key, and what precedes the key in it; undefined for open operations. */
  keyHeader: { name: string; prefix: string } | undefined
}

// The key stays out of the code, and so out of shell histories and screenshots: each reads API_KEY.

const quoteForShell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const toCurl = ({ method, url, headers, body, keyHeader }: HttpRequest) => {
  const parts = [`curl ${method === 'GET' ? '' : `-X ${method} `}${quoteForShell(url)}`]
  if (keyHeader) parts.push(`-H "${keyHeader.name}: ${keyHeader.prefix}$API_KEY"`)
  for (const [name, value] of headers) parts.push(`-H ${quoteForShell(`${name}: ${value}`)}`)
  if (body instanceof File) parts.push(`--data-binary ${quoteForShell(`@${body.name}`)}`)
  else if (body !== undefined) parts.push(`--data-raw ${quoteForShell(body)}`)
  return parts.join(' \\\n  ')
}

/** A literal of JavaScript, and of Python too. */
const quote = (text: string) => JSON.stringify(text)

const headerMembers = ({ headers, keyHeader }: HttpRequest, variable: string) => {
  const prefix = keyHeader?.prefix && `${quote(keyHeader.prefix)} + `
  const key = keyHeader ? [`${quote(keyHeader.name)}: ${prefix}${variable}`] : []
  return [...key, ...headers.map(pair => pair.map(quote).join(': '))].join(', ')
}

const toJavaScript = (request: HttpRequest) => {
  const { method, url, body } = request
  const isFile = body instanceof File
  const data = isFile ? `await openAsBlob(${quote(body.name)})` : `\`${body?.replace(/[\\`$]/g, '\\$&')}\``
  return `${isFile ? "import { openAsBlob } from 'node:fs'\n\n" : ''}const response = await fetch(${quote(url)}, {
  method: '${method}',
  headers: { ${headerMembers(request, 'process.env.API_KEY')} },${body === undefined ? '' : `\n  body: ${data},`}
})
console.log(response.status, await response.text())`
}

const toPython = (request: HttpRequest) => {
  const { method, url, body } = request
  const isFile = body instanceof File
  const data = isFile ? `open(${quote(body.name)}, "rb").read()` : `'''${body?.replace(/[\\']/g, '\\$&')}'''.encode()`
  return `import os
import urllib.request

request = urllib.request.Request(
    ${quote(url)},
    method="${method}",
    headers={${headerMembers(request, 'os.environ["API_KEY"]')}},${body === undefined ? '' : `\n    data=${data},`}
)
try:
    response = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    response = error
print(response.status, response.read().decode())`
}

export const codeExamples: Record<string, (request: HttpRequest) => string> = {
  curl: toCurl,
  JavaScript: toJavaScript,
  Python: toPython,
}
