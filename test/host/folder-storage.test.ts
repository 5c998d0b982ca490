// Archives in a folder are complete or absent, and are removed with their temporary files.
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

it('an unfinished archive does not exist yet, and its temporary file is removed with it', async () => {
  const storage = createFolderStorage(root)
  const endless = new ReadableStream<Uint8Array>({ start: controller => controller.enqueue(new Uint8Array(1000)) })
  storage.put('t/1.tar.gz', endless).catch(() => {})
  await waitFor(() => files().length === 1)
  expect(await storage.get('t/1.tar.gz')).toBe(null)
  await storage.remove(['t/1.tar.gz'])
  expect(files()).toEqual([])
})

it('an upload that breaks off leaves no file', async () => {
  const breaking = new ReadableStream<Uint8Array>({ start: controller => controller.error(new Error('cut')) })
  await expect(createFolderStorage(root).put('t/2.tar.gz', breaking)).rejects.toThrow('cut')
  expect(files()).toEqual([])
})
