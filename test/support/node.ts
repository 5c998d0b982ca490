// The app as `npm start` runs it on Node; trips are counted by the same gateway process as in workerd.
import { inject } from 'vitest'
import type { Config } from '../../src/env.ts'
import { hosted } from '../../src/host/node.ts'
import { withoutFirstWall } from './walls.ts'

export function start(settings: Record<string, unknown>, overrides: Partial<Config>, through: 'gateway' | 'unwalled') {
  const env = { DATABASE_URL: inject('databaseUrl'), ...settings }
  return hosted(env, overrides, through === 'unwalled' ? { rewrite: withoutFirstWall } : {}).app
}
