// The list as a Node team would write it: Fastify and node-postgres, with the statements of our list one after another
// in a transaction.
import Fastify from 'fastify'
import pg from 'pg'

const { port, url, statements } = JSON.parse(process.argv[2]!)
const pool = new pg.Pool({ connectionString: url, max: 10 })
const app = Fastify()

app.get('/v2/deployments', async () => {
  const client = await pool.connect()
  try {
    await client.query('begin')
    let rows: unknown[] = []
    for (const { query, params } of statements) rows = (await client.query(query, params)).rows
    await client.query('commit')
    return { resources: rows.slice(0, 20), offset: 20 }
  } finally {
    client.release()
  }
})
app.get('/healthz', async () => ({ status: 'ok' }))
await app.listen({ port, host: '127.0.0.1' })
