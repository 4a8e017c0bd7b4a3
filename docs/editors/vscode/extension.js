// Starts `tilec lsp` for files of Tile; all else is the server's.
const { workspace } = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

function activate() {
  const settings = workspace.getConfiguration('tile');
  const include = settings.get('include');
  const server = { command: settings.get('path'), args: ['lsp', ...include.flatMap((folder) => ['--include', folder])] };
  client = new LanguageClient('tile', 'Tile', server, {
    documentSelector: [{ language: 'tile' }],
    synchronize: { fileEvents: workspace.createFileSystemWatcher('**/*.tile') },
  });
  return client.start();
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
