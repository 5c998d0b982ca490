// Entry point on Cloudflare Workers: one app per isolate, and the scheduled work.
import { createApp } from './app.ts'
import { type AssetBinding, createBoundFiles } from './dashboard/asset-binding.ts'
import { readConfig } from './env.ts'
import { settingsErrorResponse } from './kernel/errors.ts'
import { type Bucket, createBucketStorage } from './kernel/storage.ts'

type Env = Record<string, unknown>
type Context = { waitUntil(work: Promise<unknown>): void; passThroughOnException(): void; props: unknown }

let app: ReturnType<typeof createApp> | undefined
const appFor = (env: Env) => {
  app ??= createApp(
    readConfig(env, {
      uploads: env.UPLOADS ? createBucketStorage(env.UPLOADS as Bucket) : undefined,
      dashboard: env.ASSETS ? createBoundFiles(env.ASSETS as AssetBinding) : undefined,
      // Each takes three fetches, of the 50 that every plan allows.
      deliveriesPerRequest: 12,
      // Cloudflare overwrites this header, so a client cannot forge it.
      clientAddress: c => c.req.header('CF-Connecting-IP'),
    }),
  )
  return app
}

export default {
  fetch(request: Request, env: Env, context: Context) {
    try {
      return appFor(env).fetch(request, env, context)
    } catch (error) {
      return settingsErrorResponse(error)
    }
  },
  scheduled: (_event: unknown, env: Env, context: Context) => context.waitUntil(appFor(env).housekeep()),
}
