// The summary of a job (pure). Names, values and log lines may come from anybody who can push, so all of them are
// escaped and stand in `code`, where GitHub makes no links of them.
export type Plan = {
  changes: { path: string; before?: unknown; after?: unknown }[]
  secrets: { name: string; change: string }[]
  warnings: string[]
  creates_revision: boolean
  plan_digest: string
}
export type Failure = { code: string; message: string; next?: string; request_id?: string; last_lines?: string[] }
export type Outcome = {
  outcome: string
  name: string
  url?: string | null | undefined
  revision?: number | undefined
  plan?: Plan | undefined
  failure?: Failure | undefined
}

const MAX_ROWS = 100
const MAX_TEXT = 300

/** Control characters, and those that reorder the text after them. */
const UNSEEN = /(?![\n\t])[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu
const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`).replace(UNSEEN, '�')
/** A blank line would end the HTML, and what follows would be Markdown. */
const code = (value: unknown): string => {
  const text = (typeof value === 'string' ? value : (JSON.stringify(value) ?? '–')).replace(/\s+/g, ' ')
  return `<code>${escapeHtml(text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text)}</code>`
}
const row = (cells: string[]): string => `<tr>${cells.map(cell => `<td>${cell}</td>`).join('')}</tr>`
const table = (heading: string[], rows: string[][]): string =>
  [
    `<table><tr>${heading.map(cell => `<th>${cell}</th>`).join('')}</tr>`,
    ...rows.slice(0, MAX_ROWS).map(row),
    ...(rows.length > MAX_ROWS ? [row([`and ${rows.length - MAX_ROWS} more`])] : []),
    '</table>',
  ].join('\n')

export function describe({ outcome, name, url, revision, plan, failure }: Outcome): string {
  const facts = [
    ['Outcome', code(outcome)],
    ...(name ? [['Deployment', code(name)]] : []),
    ...(revision === undefined ? [] : [['Revision', code(revision)]]),
    ...(url
      ? [['URL', /^https?:\/\//.test(url) ? `<a href="${escapeHtml(url)}">${escapeHtml(url)}</a>` : code(url)]]
      : []),
  ]
  const parts = ['### Slipway', `<table>\n${facts.map(row).join('\n')}\n</table>`]
  if (failure) {
    parts.push(`<p>${code(failure.message)}</p>`)
    if (failure.last_lines?.length)
      parts.push(`<pre>${failure.last_lines.map(line => escapeHtml(line.slice(0, MAX_TEXT))).join('\n')}</pre>`)
    if (failure.next) parts.push(`<p>Next: ${code(failure.next)}</p>`)
  }
  if (plan) parts.push(describePlan(plan))
  return `${parts.join('\n\n')}\n`
}

function describePlan({ changes, secrets, warnings, creates_revision, plan_digest }: Plan): string {
  const shown = changes.filter(({ path }) => path !== 'secrets')
  const rows = [
    ...shown.map(({ path, before, after }) => [code(path), code(before), code(after)]),
    ...secrets.map(({ name, change }) => [code(`secrets.${name}`), '', code(change)]),
  ]
  const title = rows.length === 0 ? 'The plan changes nothing' : 'Plan'
  return [
    `#### ${title}${creates_revision ? ', with a new revision' : ''}`,
    ...(rows.length > 0 ? [table(['Path', 'Before', 'After'], rows)] : []),
    ...warnings.slice(0, MAX_ROWS).map(warning => `<p>Warning: ${code(warning)}</p>`),
    `<p>Digest ${code(plan_digest)}</p>`,
  ].join('\n\n')
}
