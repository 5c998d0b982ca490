// In which way the router sends requests to the copies of a revision. Pure.

import type { ResourceSpec } from '../../../protocol/resources.schema.ts'
import type { Artifact } from '../../engine.ts'

/**
 * Part of a target. `limit`: the most requests in flight; `drain_ms`: the time that these have once it has no route;
 * `h2c`: it speaks HTTP/2.
 */
export type Serving = { limit?: number; drain_ms?: number; h2c?: true }

export type ServerTarget = Serving & { host: string; port: number; copy?: string }

export const servingOf = (
  { request_limit, drain_seconds, protocol }: ResourceSpec,
  artifact: Pick<Artifact, 'protocol'>,
): Serving => ({
  ...((protocol ?? artifact.protocol) === 'h2c' && { h2c: true }),
  ...(request_limit != null && { limit: request_limit }),
  ...(drain_seconds != null && { drain_ms: drain_seconds * 1000 }),
})
