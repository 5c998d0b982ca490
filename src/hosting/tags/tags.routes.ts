// Routes of tags.
import { slice } from '../../kernel/http/routes.ts'
import { namedPage } from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import * as s from './tags.schema.ts'
import * as tags from './tags.ts'

export const tagRoutes = slice('Tags', 'Keys and values to find deployments by.')
  .get('/v2/tag-keys', {
    id: 'listTagKeys',
    summary: 'List the tag keys of this workspace',
    description:
      'Newest first. These are the keys that `tag_value_ids` of other requests choose from. ' +
      '`/workspaces/current/tags` has keys and values in one answer.',
    query: namedPage('key'),
    reply: s.TagKeyList,
    verb: tags.listTagKeys,
  })
  .post('/v2/tag-keys', {
    id: 'createTagKey',
    summary: 'Create a tag key',
    description:
      'A key groups values, such as `team` or `environment`. A workspace can have 100 keys. Create values next: only ' +
      'values can be added to a deployment.',
    body: s.NewTagKey,
    status: 201,
    reply: s.TagKey,
    errors: ['tag_key_taken', 'tag_keys_full'],
    location: key => `/v2/tag-keys/${key.id}`,
    verb: tags.createTagKey,
  })
  .get('/v2/tag-keys/{tag_key_id}', {
    id: 'readTagKey',
    versioned: true,
    summary: 'Read a tag key',
    description: 'The values of the key are a list of their own, at `/v2/tag-keys/{tag_key_id}/values`.',
    params: s.TagKeyRef,
    reply: s.TagKey,
    errors: ['tag_key_not_found'],
    verb: tags.readTagKey,
  })
  .patch('/v2/tag-keys/{tag_key_id}', {
    id: 'renameTagKey',
    versioned: true,
    summary: 'Rename a tag key',
    description:
      'Ids stay, so what refers to the key and its values needs no change. Access policies name keys by their text: ' +
      'a policy about the old name no longer applies.',
    params: s.TagKeyRef,
    body: s.TagKeyName,
    reply: s.TagKey,
    errors: ['tag_key_not_found', 'tag_key_taken'],
    verb: tags.renameTagKey,
  })
  .delete('/v2/tag-keys/{tag_key_id}', {
    id: 'deleteTagKey',
    versioned: true,
    summary: 'Delete a tag key with its values, and remove them from all deployments',
    description: 'It cannot be undone. Webhooks and filters that name one of its values match nothing from then on.',
    params: s.TagKeyRef,
    errors: ['tag_key_not_found'],
    verb: tags.deleteTagKey,
  })
  .get('/v2/tag-keys/{tag_key_id}/values', {
    id: 'listTagValues',
    summary: 'List the values of a tag key',
    description: 'Newest first. Their ids are what `tag_value_ids` takes.',
    params: s.TagKeyRef,
    query: namedPage('value'),
    reply: s.TagValueList,
    errors: ['tag_key_not_found'],
    verb: tags.listTagValues,
  })
  .post('/v2/tag-keys/{tag_key_id}/values', {
    id: 'createTagValue',
    summary: 'Create a value of a tag key',
    description: 'A key can have 1,000 values. The `id` of the answer is what is added to a deployment.',
    params: s.TagKeyRef,
    body: s.NewTagValue,
    status: 201,
    reply: s.TagValue,
    errors: ['tag_key_not_found', 'tag_value_taken', 'tag_values_full'],
    location: value => `/v2/tag-values/${value.id}`,
    verb: tags.createTagValue,
  })
  .get('/v2/tag-values/{tag_value_id}', {
    id: 'readTagValue',
    versioned: true,
    summary: 'Read a tag value',
    description: 'It has the id of its key. A value belongs to one key and cannot be moved.',
    params: s.TagValueRef,
    reply: s.TagValue,
    errors: ['tag_value_not_found'],
    verb: tags.readTagValue,
  })
  .patch('/v2/tag-values/{tag_value_id}', {
    id: 'renameTagValue',
    versioned: true,
    summary: 'Rename a tag value',
    description:
      'The id stays, so deployments keep the tag. Access policies compare the text: a policy about the old value no ' +
      'longer applies.',
    params: s.TagValueRef,
    body: s.TagValueName,
    reply: s.TagValue,
    errors: ['tag_value_not_found', 'tag_value_taken'],
    verb: tags.renameTagValue,
  })
  .delete('/v2/tag-values/{tag_value_id}', {
    id: 'deleteTagValue',
    versioned: true,
    summary: 'Delete a tag value, and remove it from all deployments',
    description: 'It cannot be undone. The key and its other values stay.',
    params: s.TagValueRef,
    errors: ['tag_value_not_found'],
    verb: tags.deleteTagValue,
  })
  .get('/v2/deployments/{deployment_id}/tags', {
    id: 'listTags',
    summary: 'List the tags of a deployment',
    description: 'All of them at once, ordered by key and value. A deployment can have 50.',
    params: DeploymentRef,
    reply: s.Tags,
    errors: ['deployment_not_found'],
    verb: tags.listTags,
  })
  .post('/v2/deployments/{deployment_id}/tags', {
    id: 'addTags',
    summary: 'Add tags to a deployment',
    description:
      'Tags that the deployment has already stay as they are. If one of the values does not exist, none is added. ' +
      'The answer has all tags of the deployment.',
    params: DeploymentRef,
    body: s.NewTags,
    reply: s.Tags,
    errors: ['deployment_not_found', 'tag_value_not_found', 'tags_full', 'deployment_deleting'],
    verb: tags.addTags,
  })
  .delete('/v2/deployments/{deployment_id}/tags/{tag_value_id}', {
    id: 'removeTag',
    summary: 'Remove a tag from a deployment',
    description: 'The value itself stays. 404 `tag_value_not_found` means that the deployment does not have the tag.',
    params: s.DeploymentTagRef,
    errors: ['deployment_not_found', 'tag_value_not_found'],
    verb: tags.removeTag,
  })
