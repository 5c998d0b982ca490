// The edge entry: one app for the life of an isolate, and the scheduled work.
import { createApp, sweepAll } from './app.ts'
import { readConfig } from './env.ts'
import { unconfigured } from './kernel/errors.ts'

type Env = Record<string, unknown>
type Context = { waitUntil(work: Promise<unknown>): void; passThroughOnException(): void; props: unknown }

let app: ReturnType<typeof createApp> | undefined
const appFor = (env: Env) => {
  app ??= createApp(readConfig(env))
  return app
}

export default {
  fetch(request: Request, env: Env, context: Context) {
    try {
      return appFor(env).fetch(request, env, context)
    } catch (error) {
      return unconfigured(error)
    }
  },
  scheduled: (_event: unknown, env: Env, context: Context) => context.waitUntil(sweepAll(appFor(env).database)),
}
