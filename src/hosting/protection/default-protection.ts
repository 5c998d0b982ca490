// The protection of previews whose policy names none. Pure.
import type { Config } from '../../env.ts'
import { LOOPBACK_HOST } from '../../protocol/guarded-address.ts'
import type { Protection } from '../../protocol/protection.schema.ts'

export const DEFAULT_PROTECTION: Protection = { mode: 'members', open_paths: [] }

/** Others than its user reach it. */
export const isPublic = ({ publicUrl }: Pick<Config, 'publicUrl'>): boolean =>
  publicUrl !== undefined && !LOOPBACK_HOST.test(new URL(publicUrl).hostname)
