// The metadata of a run (pure).
import type { Run } from '../../api/runs.ts'

export const metadataOf = ({ extra }: Pick<Run, 'extra'>): Record<string, unknown> => {
  const metadata = (extra as { metadata?: unknown } | null | undefined)?.metadata
  return typeof metadata === 'object' && metadata !== null ? (metadata as Record<string, unknown>) : {}
}
