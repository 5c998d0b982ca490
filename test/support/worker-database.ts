// The database of this worker: the files that it runs have it one after the other, each without rows of an earlier one.
import { inject } from 'vitest'
import type { Database } from './database-pool.ts'
import { onFileEnd } from './file-state.ts'

const poolUrl = inject('databases')
export const database = (await (await fetch(poolUrl, { method: 'POST' })).json()) as Database
onFileEnd(async () => {
  const reply = await fetch(`${poolUrl}/${database.name}`, { method: 'DELETE' })
  if (!reply.ok) throw new Error(await reply.text())
})
