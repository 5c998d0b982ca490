// The database of the file of tests that imports this.
import { afterAll, inject } from 'vitest'
import type { Database } from './databases.ts'

const lender = inject('databases')
export const database = (await (await fetch(lender, { method: 'POST' })).json()) as Database
afterAll(() => fetch(`${lender}/${database.name}`, { method: 'DELETE' }).then(() => {}))
