// Warns of statuses in a filter that no row can have.
import type { Ctx } from '../../kernel/http/context.ts'
import { shortenName } from '../../kernel/http/unknown-members.ts'

export function warnUnknownStatuses(
  ctx: Ctx,
  sent: string[] | undefined,
  known: readonly string[],
  filter = 'status',
): void {
  const unknown = (sent ?? []).filter(status => !known.includes(status))
  if (unknown.length > 0)
    ctx.warnings.push(`\`${filter}\` knows no ${unknown.map(shortenName).join(', ')}. Use ${known.join(', ')}.`)
}
