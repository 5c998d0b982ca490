// Hono's hello: what the cold start of an application is measured against.
import { Hono } from 'hono'

export default new Hono().get('/healthz', c => c.json({ status: 'ok' }))
