// Liveness and readiness checks.
import * as z from 'zod'
import { VERSION } from '../version.ts'
import { fail } from './errors.ts'
import { jsonResponse } from './json-response.ts'
import { slice } from './routes.ts'

const Health = z.object({ status: z.literal('ok'), version: z.string() }).meta({ id: 'Health' })
const Readiness = z.object({ status: z.literal('ready'), migration: z.string() }).meta({ id: 'Readiness' })
const HEALTHY = JSON.stringify({ status: 'ok', version: VERSION })

export const healthRoutes = slice('Health', 'Liveness and readiness checks for load balancers and people.')
  .get('/healthz', {
    id: 'health',
    summary: 'Check that the process is alive, without the database',
    description: 'Takes no API key. Use it as the liveness check: it fails only if the process does not answer.',
    reply: Health,
    isProbe: true,
    open: () => jsonResponse(HEALTHY),
  })
  .get('/readyz', {
    id: 'readiness',
    summary: 'Check that the database responds and has the schema of this version',
    description:
      'Takes no API key. Use it as the readiness check: 503 means that no requests should be sent here, because of ' +
      'the database, a pending migration or a shutdown.',
    reply: Readiness,
    isProbe: true,
    errors: ['not_ready', 'shutting_down', 'database_unavailable'],
    open: async (c, { platform, database }) => {
      if (platform.draining?.aborted) throw fail('shutting_down')
      const { readCachedReadiness } = await import('./readiness.ts')
      return c.json({ status: 'ready', migration: await readCachedReadiness(database) })
    },
  })
