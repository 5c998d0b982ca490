// Hono's hello world, as Hono is served on Node.
import { serve } from '@hono/node-server'
import hello from '../workers/hello.ts'

serve({ fetch: hello.fetch, port: Number(process.env.PORT), hostname: '127.0.0.1' })
