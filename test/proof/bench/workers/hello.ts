// Hono's hello world: an application's cold start is measured against it.
import { Hono } from 'hono'

export default new Hono().get('/healthz', c => c.json({ status: 'ok' }))
