// Archives in a folder: complete or absent, and removed with their temporary files.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { createFolderStorage } from '../../src/host/folder-storage.ts'
import { waitFor } from '../support/commands.ts'

const root = mkdtempSync(join(tmpdir(), 'slipway-folder-'))
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 9 }))

const files = () =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => entry.name)

it('an archive whose process was killed does not exist, and its temporary file can be removed', async () => {
  const storage = createFolderStorage(root)
  const endless = new ReadableStream<Uint8Array>({ start: out => out.enqueue(new Uint8Array(1000)) })
  storage.put('t/1.tar.gz', endless).catch(() => {})
  await waitFor(() => files().length === 1)
  expect(await storage.get('t/1.tar.gz')).toBe(null)
  await storage.remove(['t/1.tar.gz'])
  expect(files()).toEqual([])
})

it('an upload that breaks off leaves no file', async () => {
  const breaking = new ReadableStream<Uint8Array>({ start: out => out.error(new Error('cut')) })
  await expect(createFolderStorage(root).put('t/2.tar.gz', breaking)).rejects.toThrow('cut')
  expect(files()).toEqual([])
})
