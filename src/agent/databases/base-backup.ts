// A base backup by the replication protocol of Postgres: a tar of the data folder with the WAL that makes it whole.
import { randomBytes } from 'node:crypto'
import { PassThrough, type Readable } from 'node:stream'
import pg from 'pg'

/** `WAIT false`: an archive that fails must not hold it up, because the tar has its own WAL. */
const COMMAND = `BASE_BACKUP (LABEL 'slipway', CHECKPOINT 'fast', WAL true, WAIT false, MANIFEST 'no')`
/** Without it a checkpoint in the middle may remove WAL that the tar needs. It ends with the session. */
const keepWal = () =>
  `CREATE_REPLICATION_SLOT "slipway_${randomBytes(8).toString('hex')}" TEMPORARY PHYSICAL RESERVE_WAL`
const CONNECT_TIMEOUT_MS = 10_000

type Chunk = { chunk: Buffer }
type Wire = { query(text: string): void; stream: { pause(): void; resume(): void } }

/** The stream fails if the backup does. To destroy it ends the backup. */
export async function streamBaseBackup(url: string): Promise<Readable> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: 'slipway-agent',
    replication: 'true',
  } as pg.ClientConfig)
  const tar = new PassThrough()
  // It may fail before anyone reads it. Whoever reads it then sees that it was destroyed.
  tar.on('error', () => {})
  client.on('error', error => tar.destroy(error))
  await client.connect()
  tar.once('close', () => void client.end().catch(() => {}))
  await client.query(keepWal()).catch(error => {
    tar.destroy()
    throw error
  })
  client.query(new Backup(tar) as object as pg.Submittable)
  return tar
}

/** The members of a query that node-postgres calls. */
class Backup {
  readonly #tar: PassThrough
  #archives = 0
  #isPaused = false

  constructor(tar: PassThrough) {
    this.#tar = tar
  }

  submit(wire: Wire): void {
    wire.query(COMMAND)
  }

  /** The first byte says the kind of message: `n` begins an archive, and `d` has data of it. */
  handleCopyData({ chunk }: Chunk, wire: Wire): void {
    const kind = String.fromCharCode(chunk[0]!)
    if (kind === 'n' && ++this.#archives > 1)
      this.#tar.destroy(new Error('The database has a tablespace, which backups do not support.'))
    // The parser uses its buffer again.
    const isWritable = kind !== 'd' || this.#tar.destroyed || this.#tar.write(Buffer.from(chunk.subarray(1)))
    if (isWritable || this.#isPaused) return
    this.#isPaused = true
    wire.stream.pause()
    const resume = () => {
      this.#tar.off('drain', resume).off('close', resume)
      this.#isPaused = false
      wire.stream.resume()
    }
    this.#tar.once('drain', resume).once('close', resume)
  }

  handleError(error: Error): void {
    this.#tar.destroy(error)
  }

  handleReadyForQuery(): void {
    this.#tar.end()
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleCopyInResponse(): void {}
}
