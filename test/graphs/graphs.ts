// Copies of the server of graphs on a database of their own, with an executor that needs no packages.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { start } from '../../src/graphs/start.ts'
import { query } from '../support/postgres.ts'
import { database } from '../support/worker-database.ts'

const EXECUTOR = join(import.meta.dirname, '../support/graph-executor.mjs')
type Options = Parameters<typeof start>[0]
type Settings = Partial<Options['configuration']> & Pick<Partial<Options>, 'apiKey' | 'limits' | 'answerMs'>
// biome-ignore lint/suspicious/noExplicitAny: answers of a server, which the tests are about.
type Json = Record<string, any>

/** The tables of the saver, which the executor of these tests does not have. */
const CHECKPOINTS = `create schema graphs_javascript;
  create table graphs_javascript.checkpoints (
    thread_id text, checkpoint_ns text, checkpoint_id text, parent_checkpoint_id text, type text, checkpoint jsonb,
    metadata jsonb
  );
  create table graphs_javascript.checkpoint_blobs (
    thread_id text, checkpoint_ns text, channel text, version text, type text, blob bytea
  );
  create table graphs_javascript.checkpoint_writes (
    thread_id text, checkpoint_ns text, checkpoint_id text, task_id text, idx int, channel text, type text, blob bytea
  )`

export async function openGraphs() {
  const name = `graphs_${crypto.randomUUID().replaceAll('-', '')}`
  await query(database.url, `create database ${name} template template0`)
  const url = Object.assign(new URL(database.url), { pathname: name }).href
  await query(url, CHECKPOINTS)
  const folder = await mkdtemp(join(tmpdir(), 'slipway-graphs-'))
  const copies: Awaited<ReturnType<typeof start>>[] = []

  async function startCopy({ apiKey, limits, answerMs, ...settings }: Settings = {}) {
    const copy = await start({
      configuration: {
        folder,
        graphs: [{ id: 'echo', path: './echo.mjs', name: 'graph', language: 'javascript' }],
        variables: {},
        auth: null,
        index: null,
        app: null,
        store: undefined,
        checkpointer: undefined,
        http: undefined,
        webhooks: undefined,
        ...settings,
      },
      databaseUrl: url,
      commands: { javascript: () => [process.execPath, EXECUTOR], python: () => [] },
      environment: {},
      host: '127.0.0.1',
      port: 0,
      slots: 10,
      apiKey,
      limits,
      answerMs,
      version: 'test',
    })
    copies.push(copy)
    const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      fetch(copy.url + path, {
        method,
        headers: { 'Content-Type': 'application/json', ...headers },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
    const call = async (method: string, path: string, body?: unknown) => {
      const response = await send(method, path, body)
      const text = await response.text()
      return { status: response.status, body: (text ? JSON.parse(text) : undefined) as Json }
    }
    return { ...copy, send, call }
  }

  return {
    folder,
    startCopy,
    sql: <Row extends Json = Json>(text: string) => query<Row>(url, text),
    async close() {
      await Promise.all(copies.map(copy => copy.stop(0)))
      await query(database.url, `drop database ${name} with (force)`)
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The events of a stream, with their ids. */
export async function readEvents(response: Response): Promise<{ id: number; event: string; data: Json }[]> {
  const blocks = (await response.text()).split('\n\n').filter(block => block.startsWith('id: '))
  return blocks.map(block => {
    const [id, event, data] = block.split('\n').map(line => line.slice(line.indexOf(' ') + 1))
    return { id: Number(id), event: event!, data: JSON.parse(data!) }
  })
}
