// The variables by which an application calls models. The token in the file is renewed every few minutes.
import type { RevisionSpec } from '../engine.ts'

export const MODEL_TOKEN_FILE = 'token'

export const modelVariables = (
  { models_url }: Pick<RevisionSpec, 'models_url'>,
  file: string,
): Record<string, string> =>
  models_url === null ? {} : { SLIPWAY_MODELS_URL: models_url, SLIPWAY_MODEL_TOKEN_FILE: file }
