// Writes a request as a curl command for a POSIX shell. Pure.

export interface HttpRequest {
  method: string
  url: string
  headers: [name: string, value: string][]
  body: string | File | undefined
  /** The start of the header that carries the key, such as `Authorization: Bearer `; undefined for open operations. */
  keyHeader: string | undefined
}

const quoteForShell = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** The key stays out of the command, and so out of shell histories and screenshots. */
export const toCurl = ({ method, url, headers, body, keyHeader }: HttpRequest) => {
  const parts = [`curl ${method === 'GET' ? '' : `-X ${method} `}${quoteForShell(url)}`]
  if (keyHeader) parts.push(`-H "${keyHeader}$API_KEY"`)
  for (const [name, value] of headers) parts.push(`-H ${quoteForShell(`${name}: ${value}`)}`)
  if (body instanceof File) parts.push(`--data-binary ${quoteForShell(`@${body.name}`)}`)
  else if (body !== undefined) parts.push(`--data-raw ${quoteForShell(body)}`)
  return parts.join(' \\\n  ')
}
