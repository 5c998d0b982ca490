// A SHA-256 that is fed piece by piece. WebCrypto wants the whole at once; of Node's modules this is the one that Workers run natively too.
import { createHash } from 'node:crypto'

export const sha256 = () => createHash('sha256')
