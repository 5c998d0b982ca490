// Archives of logs, as commands choose and show them.
import type { Command } from 'commander'
import type { Reply } from '../client/client.ts'
import type { Session } from './session.ts'
import { parseTime } from './times.ts'

export type LogArchive = Reply<'GET /v2/deployments/{deployment_id}/log-archives'>['resources'][number]

export const withRange = (command: Command): Command =>
  command
    .option('--since <time>', 'only of hours that end after this time, such as 2h or 3d ago, or 2026-11-22T12:00:00Z')
    .option('--until <time>', 'only of hours that begin before this time')
export type RangeFlags = { since?: string; until?: string }

const HOUR_MS = 3_600_000

/** Newest first. Archives are written in the order of their hours. */
export async function* findArchives(
  { client, signal }: Session,
  deployment_id: string,
  { since, until }: RangeFlags,
): AsyncGenerator<LogArchive> {
  const from = since === undefined ? 0 : Date.parse(parseTime(since, '--since'))
  const to = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(parseTime(until, '--until'))
  const params = { deployment_id }
  const archives = client.list('GET /v2/deployments/{deployment_id}/log-archives', {
    params,
    query: { limit: 100 },
    signal,
  })
  for await (const archive of archives) {
    const hour = Date.parse(archive.hour)
    if (hour + HOUR_MS > from && hour < to) yield archive
  }
}
