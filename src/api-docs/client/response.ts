// Shows the body of a response: colored JSON, text, or an event stream as it arrives.

// An unclosed string matches to the end of its line, so that matching stays linear in the text.
const JSON_TOKEN = /"(?:[^"\\]|\\.)*"?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g
const MAX_COLOURED_LENGTH = 200_000

const showColouredJson = (target: HTMLElement, json: string) => {
  const parts: (string | Node)[] = []
  let end = 0
  for (const { 0: token, index } of json.matchAll(JSON_TOKEN)) {
    const span = document.createElement('span')
    span.className = token.startsWith('"') ? 'v' : 'n'
    span.textContent = token
    parts.push(json.slice(end, index), span)
    end = index + token.length
    if (token.startsWith('"') && /^\s*:/.test(json.slice(end))) span.className = 'k'
  }
  target.replaceChildren(...parts, json.slice(end))
}

const showStream = async (target: HTMLElement, body: ReadableStream<Uint8Array<ArrayBuffer>>) => {
  target.textContent = ''
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    target.append(value)
  }
}

/** Indents the text, unless a number has so many digits that parsing would round it. */
const indentJson = (text: string) => {
  const indented = JSON.stringify(JSON.parse(text), null, 2)
  return /\d{16}/.test(text) ? text : indented
}

export const showBody = async (target: HTMLElement, response: Response) => {
  const type = response.headers.get('content-type') ?? ''
  if (type.includes('event-stream') && response.body) return showStream(target, response.body)
  if (!/json|text|xml|^$/.test(type)) return target.replaceChildren(`(${type}, not shown)`)
  const text = await response.text()
  target.textContent = text || '(empty)'
  if (text.length >= MAX_COLOURED_LENGTH) return
  try {
    showColouredJson(target, indentJson(text))
  } catch {
    // Not JSON: it stays plain text.
  }
}
