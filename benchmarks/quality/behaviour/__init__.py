"""The frozen behaviour set: 200 sentences in four languages, judged by readers. See README.md in
this folder."""
