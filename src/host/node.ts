// Hosts the same app on plain Node: `npm start`, with the gateway in process where the database is not Neon's.
import { serve } from '@hono/node-server'
import { createApp } from '../app.ts'
import { type Config, readConfig, SettingsError } from '../env.ts'
import { sweep } from '../kernel/sweep.ts'
import { createGateway, type GatewayOptions, speaksHttp } from './gateway.ts'

const SWEEP_MS = 5 * 60_000

export function hosted(
  env: Record<string, unknown>,
  overrides: Partial<Config> = {},
  options: Omit<GatewayOptions, 'databaseUrl'> = {},
) {
  const config = readConfig(env, overrides)
  const { url } = config.database
  if (speaksHttp(url)) return { app: createApp(config), close: async () => {} }
  const gateway = createGateway({ ...options, databaseUrl: url })
  config.database = { url: gateway.connectionString, gateway: undefined }
  return { app: createApp(config, gateway.fetch as typeof fetch), close: () => gateway.close() }
}

function main() {
  const port = Number(process.env.PORT ?? 8787)
  const { app, close } = hosted(process.env)
  const server = serve({ fetch: app.fetch, port, hostname: process.env.HOST ?? '127.0.0.1' }, ({ address, port }) =>
    console.log(`Slipway serves http://${address}:${port}; its API pages are at /docs`),
  )
  server.on('error', (error: NodeJS.ErrnoException) => {
    console.error(error.code === 'EADDRINUSE' ? `Port ${port} is taken: set PORT to a free one.` : error.message)
    process.exit(1)
  })
  const sweeping = setInterval(() => sweep(app.database).catch(error => console.error(error)), SWEEP_MS)
  const stop = () => {
    clearInterval(sweeping)
    server.close(() => close().then(() => process.exit(0)))
    if ('closeIdleConnections' in server) server.closeIdleConnections()
  }
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
}

if (import.meta.main) {
  try {
    main()
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    console.error(`${error.message} See the configuration table in README.md.`)
    process.exit(1)
  }
}
