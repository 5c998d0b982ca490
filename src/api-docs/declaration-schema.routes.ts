// The route of the JSON Schema for editors.
import * as z from 'zod'
import { slice } from '../kernel/http/routes.ts'
import { serveStaticPage } from '../kernel/pages/static-page.ts'
import { buildDeclarationSchema } from './declaration-schema.ts'

const MEDIA_TYPE = 'application/schema+json'

export const declarationSchemaRoutes = slice('Schemas', 'For editors of documents.').get('/schemas/slipway.json', {
  id: 'readDeclarationSchema',
  summary: 'Get the JSON Schema of the documents that `slipway apply` takes',
  description: 'For editors: `# yaml-language-server: $schema=` and this address as the first line of a YAML file.',
  reply: z.looseObject({}).meta({ id: 'JsonSchema' }),
  replyMediaType: MEDIA_TYPE,
  open: serveStaticPage(MEDIA_TYPE, () => JSON.stringify(buildDeclarationSchema())),
})
