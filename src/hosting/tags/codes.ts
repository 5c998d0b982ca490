// Error codes of tags.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const tagsCodes = {
  tags_full: {
    status: 400,
    title: 'Too many tags',
    problem: 'A deployment can have at most 50 tags, another resource 100.',
    remedy: 'Remove some first.',
  },
  tag_keys_full: {
    status: 400,
    title: 'Too many tag keys',
    problem: 'A workspace can have at most 100 tag keys.',
    remedy: 'Delete an unused one first.',
  },
  tag_values_full: {
    status: 400,
    title: 'Too many tag values',
    problem: 'A tag key can have at most 1000 values.',
    remedy: 'Delete an unused one first.',
  },
  tagging_not_found: {
    status: 404,
    title: 'Tagging not found',
    problem: 'No resource has this tag, or you may not see it.',
    remedy: 'GET /workspaces/current/taggings lists the taggings.',
  },
  tag_key_not_found: {
    status: 404,
    title: 'Tag key not found',
    problem: 'This tag key does not exist here.',
    remedy: 'GET /v2/tag-keys lists the keys.',
  },
  tag_value_not_found: {
    status: 404,
    title: 'Tag value not found',
    problem: 'This tag value does not exist here.',
    remedy: 'List the values of the tag key.',
  },
  tag_key_taken: {
    status: 409,
    title: 'Tag key taken',
    problem: 'This workspace already has this tag key.',
    remedy: 'Use it, or choose another.',
  },
  tag_value_taken: {
    status: 409,
    title: 'Tag value taken',
    problem: 'The tag key already has this value.',
    remedy: 'Use it, or choose another.',
  },
} as const satisfies ErrorCodes
