// The database of the file of tests that imports this.
import { afterAll, inject } from 'vitest'
import type { Database } from './database-pool.ts'

const poolUrl = inject('databases')
export const database = (await (await fetch(poolUrl, { method: 'POST' })).json()) as Database
afterAll(() => fetch(`${poolUrl}/${database.name}`, { method: 'DELETE' }).then(() => {}))
