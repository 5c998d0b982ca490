// The list as a Node team would write it: Fastify and node-postgres, with the statements of our list one after another
// in a transaction. `isPipelined` is for a team that knows its driver: named statements, which Postgres keeps prepared,
// all sent before the first answer.
import Fastify from 'fastify'
import pg from 'pg'

type Statement = { query: string; params: unknown[] }

const { port, url, statements, isPipelined } = JSON.parse(process.argv[2]!)
const pool = new pg.Pool({ connectionString: url, max: 10, ...(isPipelined && { pipeline: true }) })
const app = Fastify()

async function runInTurn(client: pg.ClientBase): Promise<unknown[]> {
  await client.query('begin')
  let rows: unknown[] = []
  for (const { query, params } of statements) rows = (await client.query(query, params)).rows
  await client.query('commit')
  return rows
}

async function runAtOnce(client: pg.ClientBase): Promise<unknown[]> {
  const prepared = statements.map(({ query, params }: Statement, i: number) => ({
    name: `list-${i}`,
    text: query,
    values: params,
  }))
  const queries = [{ name: 'begin', text: 'begin' }, ...prepared, { name: 'commit', text: 'commit' }]
  const results = await Promise.all(queries.map(one => client.query(one)))
  return results.at(-2)!.rows
}

app.get('/v2/deployments', async () => {
  const client = await pool.connect()
  try {
    const rows = await (isPipelined ? runAtOnce(client) : runInTurn(client))
    return { resources: rows.slice(0, 20), offset: 20 }
  } finally {
    client.release()
  }
})
app.get('/healthz', async () => ({ status: 'ok' }))
await app.listen({ port, host: '127.0.0.1' })
