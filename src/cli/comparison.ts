// The differences between two revisions, as a terminal shows them.
import { flattenChanges } from '../client/changes.ts'
import type { Reply } from '../client/client.ts'
import { age, formatValue, type Output } from './output.ts'
import type { Deployment, Session } from './session.ts'

export type Comparison =
  Reply<'GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}'>
type Change = Comparison['changes'][number]
type Compared = Comparison['before']

export const compareRevisions = (
  { client, signal }: Session,
  deployment_id: string,
  [revision_id, other_revision_id]: [before: string, after: string],
): Promise<Comparison> =>
  client.call('GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}', {
    params: { deployment_id, revision_id, other_revision_id },
    signal,
  })

/** The lines about both revisions: commits, build time and errors, which are not part of a configuration. */
export function describeRevisions({ out }: Session, { name }: Deployment, comparison: Comparison): string[] {
  const { before, after, commits } = comparison
  const describe = ({ number, status, created_at, commit }: Compared) =>
    `${out.paint('bold', `revision ${number}`)} ${status}, ${age(created_at)}${commit ? `, ${commit.slice(0, 8)}` : ''}`
  const seconds = [before.build_seconds, after.build_seconds]
  const errors = [before.error_lines, after.error_lines]
  return [
    `${name}: ${describe(before)} → ${describe(after)}`,
    ...(commits?.compare_url ? [`Commits      ${commits.compare_url}`] : []),
    ...(seconds.every(value => value !== null) ? [`Build        ${seconds.map(formatSeconds).join(' → ')}`] : []),
    ...(errors.some(value => value !== 0) ? [`Error lines  ${errors.join(' → ')}`] : []),
  ]
}

const formatSeconds = (seconds: number | null) => `${Math.round(seconds!)} s`

const MARKS = { added: ['green', '+'], removed: ['red', '-'], changed: ['yellow', '~'] } as const

export function paintMark({ paint }: Output, change: keyof typeof MARKS): string {
  const [style, mark] = MARKS[change]
  return paint(style, mark)
}

const isAbsent = (value: unknown) => value === null || value === undefined

/** Puts the values on lines of their own if path and values do not fit the terminal. */
export function showChanges({ out }: Session, changes: Change[]): void {
  for (const { path, before, after } of flattenChanges(changes)) {
    const mark = paintMark(out, isAbsent(before) ? 'added' : isAbsent(after) ? 'removed' : 'changed')
    const values = [before, after].filter(value => !isAbsent(value)).map(value => formatMember(path, value))
    const fits = path.length + values.join(' → ').length + 4 <= out.width
    out.raw(`${mark} ${path}${fits ? `  ${values.join(' → ')}` : ''}`)
    if (!fits) out.raw(values.map((value, i) => `${i === 0 ? '    ' : '  → '}${value}`).join('\n'))
  }
}

const formatMember = (path: string, value: unknown) =>
  path.startsWith('secrets.') && typeof value === 'number' ? `version ${value}` : formatValue(value)
