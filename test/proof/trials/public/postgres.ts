// Runs the embedded Postgres in a folder until it is stopped, and prints the address of an owner who is no superuser.
import pg from 'pg'
import { startPostgres } from '../../../../src/host/embedded-postgres.ts'

const [dataDir = ''] = process.argv.slice(2)
const postgres = await startPostgres({ dataDir })
const client = new pg.Client(postgres.url)
await client.connect()
await client.query(`create role owner login createrole password 'owner'`)
await client.query('create database slipway owner owner')
await client.end()
console.log(`postgres://owner:owner@127.0.0.1:${postgres.port}/slipway`)
process.on('SIGTERM', () => void postgres.stop().then(() => process.exit()))
setInterval(() => {}, 60_000)
