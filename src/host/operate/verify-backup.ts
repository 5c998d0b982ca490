// Checks every file of a backup against its manifest, without a database.
import { readChecked } from './checked-files.ts'
import { journalsFile, type Manifest, readManifest, type SealingKeys, tableFile } from './manifest.ts'
import { verifyUploads } from './uploads.ts'
import { describePoint } from './write-backup.ts'

export async function checkFiles(folder: string, { tables, journals, uploads }: Manifest): Promise<void> {
  for (const table of tables) await readChecked(tableFile(folder, table.name), table)
  await readChecked(journalsFile(folder), journals)
  if (uploads) await verifyUploads(folder, uploads)
}

export async function verifyBackup(folder: string, keys: SealingKeys | undefined): Promise<void> {
  const manifest = await readManifest(folder, keys)
  await checkFiles(folder, manifest)
  console.log(`${folder} is complete. It shows ${describePoint(manifest)}.`)
  console.log(
    keys
      ? 'SEALING_KEYS open it, and its manifest is signed by them.'
      : 'Its keys and its signature were not checked: SEALING_KEYS is not set.',
  )
}
