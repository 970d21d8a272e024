module slmdb

go 1.24
